"""The ServiceAccount that an add-on is on the hub: its names, and how the hub reports that it exists."""

from __future__ import annotations

import re

from msgspec import Struct

from watchword.api.addon import Addon, AddonSubject, Registration
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    ConditionType,
    addon_service_account,
    addon_service_account_short,
    service_account_user,
)
from watchword.drivers.interface import CredentialSubject, WantedCredential

# The format is OCM's: its agents learn the UID from the message, and its hub writes no other field with it.
_READY = re.compile(r"(?:ServiceAccount (?P<namespace>[^/\s]+)/(?P<name>[^/\s]+) )?\(UID: (?P<uid>[^)\s]+)\)")


class TokenAccount(Struct, frozen=True):
    """The ServiceAccount that the hub reports as ready."""

    name: str  # empty when the message does not name it
    uid: str
    namespace: str = ""


def ready_message(account: ObjectKey, uid: str) -> str:
    """Return the message from which agents, of OCM too, learn the UID."""
    return f"ServiceAccount {account} (UID: {uid}) is ready"


def parse_ready_message(message: str) -> TokenAccount | None:
    """Return the account of a message, None when it has no UID."""
    found = _READY.search(message)
    if found is None:
        return None
    return TokenAccount(found["name"] or "", found["uid"], found["namespace"] or "")


def ready_account(addon: Addon) -> TokenAccount | None:
    """Return the ServiceAccount that the hub reports as ready, None when it reports none that can be ours."""
    said = find_condition(addon.object, ConditionType.TOKEN_INFRASTRUCTURE_READY)
    account = parse_ready_message(said.message) if said is not None and said.status == "True" else None
    if account is None or account.namespace not in ("", addon.cluster):
        return None
    return account if account.name in ("", *service_accounts(addon.cluster, addon.name)) else None


def service_accounts(cluster: str, addon: str) -> tuple[str, str]:
    """Return both names that an add-on's ServiceAccount may have: the default, and that of OCM."""
    return addon_service_account(cluster, addon), addon_service_account_short(addon)


def account_name(subject: AddonSubject) -> str:
    """Return the ServiceAccount of a token's subject."""
    return subject.user.rpartition(":")[2]


def token_subject(cluster: str, account: str) -> AddonSubject:
    """Return the subject of an add-on whose credential is a token."""
    return AddonSubject(service_account_user(cluster, account))


def default_token_subject(cluster: str, addon: str) -> AddonSubject:
    """Return the subject of an add-on that declares none."""
    return token_subject(cluster, addon_service_account(cluster, addon))


def is_own_account(cluster: str, addon: str, subject: AddonSubject) -> bool:
    """Whether a subject is one that this add-on's token may have."""
    return subject in tuple(token_subject(cluster, name) for name in service_accounts(cluster, addon))


def rbac_account(cluster: str, _addon: str, subject: AddonSubject) -> Object:
    """Return the ServiceAccount that bindings name."""
    return {"kind": "ServiceAccount", "namespace": cluster, "name": account_name(subject)}


def choose_token_subject(addon: Addon, registration: Registration) -> AddonSubject:
    """Return the account that the hub has made; else the one declared before, else the default."""
    account = ready_account(addon)
    if account is not None and account.name:
        return token_subject(addon.cluster, account.name)
    own = is_own_account(addon.cluster, addon.name, registration.subject)
    return registration.subject if own else default_token_subject(addon.cluster, addon.name)


def wanted_token(addon: Addon, registration: Registration) -> WantedCredential:
    """Return the request for a token of the account that the hub reports; while it reports none, without its UID."""
    account, name = ready_account(addon), account_name(registration.subject)
    settled = account is not None and account.name in ("", name)
    return WantedCredential(
        addon.cluster,
        CredentialSubject(registration.subject.user),
        addon=addon.name,
        service_account=name,
        service_account_uid=account.uid if account is not None and settled else "",
        rotation=addon.rotation_request,
    )
