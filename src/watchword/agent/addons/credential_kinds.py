"""What each driver makes of an add-on: who it will be, what is asked for, how it is reported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from watchword.agent.options import AgentOptions
from watchword.api.addon import (
    CUSTOM_SIGNER,
    KUBE_CLIENT_DRIVERS,
    Addon,
    AddonSubject,
    Registration,
    TokenAccount,
    certificate_subject,
    parse_ready_message,
    service_accounts,
    token_subject,
)
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import annotations_of
from watchword.api.names import Annotation, ConditionType
from watchword.drivers.interface import CredentialSubject, WantedCredential

_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class CredentialStatus:
    """What is known of one credential."""

    good: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CredentialKind:
    """How one driver's credential is wanted and reported."""

    subject: Callable[[Addon, Registration], AddonSubject]
    wanted: Callable[[Addon, Registration, AgentOptions], WantedCredential]
    conditions: Callable[[Iterable[CredentialStatus]], tuple[Condition, ...]]


def addon_driver_name(registration: Registration, addon_auth: str) -> str:
    """Return the driver that serves a registration: the flag decides for the hub's API, the rest are certificates."""
    return "csr" if registration.type == CUSTOM_SIGNER else addon_auth or "csr"


def ready_account(addon: Addon) -> TokenAccount | None:
    """Return the ServiceAccount that the hub reports as ready, None when it reports none that can be ours."""
    said = find_condition(addon.object, ConditionType.TOKEN_INFRASTRUCTURE_READY)
    account = parse_ready_message(said.message) if said is not None and said.status == "True" else None
    if account is None or account.namespace not in ("", addon.cluster):
        return None
    return account if account.name in ("", *service_accounts(addon.cluster, addon.name)) else None


def choose_token_subject(addon: Addon, registration: Registration) -> AddonSubject:
    """Return the account that the hub has made; else the one declared before, else the default."""
    account = ready_account(addon)
    if account is not None and account.name:
        return token_subject(addon.cluster, account.name)
    rule = KUBE_CLIENT_DRIVERS["token"]
    own = rule.is_own(addon.cluster, addon.name, registration.subject)
    return registration.subject if own else rule.default(addon.cluster, addon.name)


def choose_certificate_subject(addon: Addon, registration: Registration) -> AddonSubject:
    """Return what the add-on's hub controller chose, else the default; an account is left over from another driver."""
    chosen = registration.subject
    if chosen.user and not chosen.user.startswith(_ACCOUNT_PREFIX):
        return chosen
    default = certificate_subject(addon.cluster, addon.name)
    return default if registration.type != CUSTOM_SIGNER else AddonSubject(default.user)


def wanted_token(addon: Addon, registration: Registration, options: AgentOptions) -> WantedCredential:
    """Ask for the very account that the hub reports; while it reports none, nothing can be asked for."""
    account = ready_account(addon)
    name = registration.subject.user.rpartition(":")[2]
    settled = account is not None and account.name in ("", name)
    return WantedCredential(
        addon.cluster,
        CredentialSubject(registration.subject.user),
        addon=addon.name,
        lifetime=options.addon_token_lifetime,
        service_account=name,
        service_account_uid=account.uid if account is not None and settled else "",
        rotation=_rotation(addon),
    )


def wanted_certificate(addon: Addon, registration: Registration, options: AgentOptions) -> WantedCredential:
    """Ask for a certificate with the declared subject."""
    declared = registration.subject
    subject = CredentialSubject(declared.user, declared.groups, declared.organization_units)
    return WantedCredential(
        addon.cluster,
        subject,
        addon=addon.name,
        signer=registration.signer,
        lifetime=options.certificate_lifetime,
        rotation=_rotation(addon),
    )


def _rotation(addon: Addon) -> str:
    """Return the last request for an early renewal; only the hub's administrators can write it."""
    return annotations_of(addon.object).get(Annotation.ROTATION_REQUEST, "")


def token_conditions(said: Iterable[CredentialStatus]) -> tuple[Condition, ...]:
    """Say it twice: under the type of the design, and under that of the shipped system."""
    status = next(iter(said))
    if status.good:
        return (
            Condition.true(ConditionType.ADDON_TOKEN_REFRESHED, "AddonTokenRefreshed", status.message),
            Condition.true(ConditionType.TOKEN_REFRESHED, "AddonTokenRefreshed", status.message),
        )
    return (
        Condition.false(ConditionType.ADDON_TOKEN_REFRESHED, status.reason, status.message),
        Condition.false(ConditionType.TOKEN_REFRESHED, "TokenCreationFailed", status.message),
    )


def certificate_conditions(said: Iterable[CredentialStatus]) -> tuple[Condition, ...]:
    """Say of all certificates together whether they are good: there is one condition for any number of them."""
    statuses = list(said)
    bad = [status for status in statuses if not status.good]
    message = "; ".join(status.message for status in bad or statuses)
    if bad:
        return (Condition.false(ConditionType.CERTIFICATE_ROTATED, bad[0].reason, message),)
    return (Condition.true(ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated", message),)


CREDENTIAL_KINDS: Mapping[str, CredentialKind] = MappingProxyType(
    {
        "csr": CredentialKind(choose_certificate_subject, wanted_certificate, certificate_conditions),
        "token": CredentialKind(choose_token_subject, wanted_token, token_conditions),
    }
)
