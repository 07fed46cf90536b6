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
    read_ready_message,
    service_accounts,
    token_subject,
)
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import annotations_of
from watchword.api.names import Annotation, ConditionType
from watchword.drivers.interface import Subject, Wanted

_ACCOUNT_PREFIX = "system:serviceaccount:"


@dataclass(frozen=True, slots=True)
class Said:
    """What is known of one credential."""

    good: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class CredentialKind:
    """How one driver's credential is wanted and reported."""

    subject: Callable[[Addon, Registration], AddonSubject]
    wanted: Callable[[Addon, Registration, AgentOptions], Wanted]
    conditions: Callable[[Iterable[Said]], tuple[Condition, ...]]


def driver_of(registration: Registration, addon_auth: str) -> str:
    """Return the driver that serves a registration: the flag decides for the hub's API, the rest are certificates."""
    return "csr" if registration.type == CUSTOM_SIGNER else addon_auth or "csr"


def ready_account(addon: Addon) -> TokenAccount | None:
    """Return the ServiceAccount that the hub reports as ready, None when it reports none that can be ours."""
    said = find_condition(addon.object, ConditionType.TOKEN_INFRASTRUCTURE_READY)
    account = read_ready_message(said.message) if said is not None and said.status == "True" else None
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


def token_wanted(addon: Addon, registration: Registration, options: AgentOptions) -> Wanted:
    """Ask for the very account that the hub reports; while it reports none, nothing can be asked for."""
    account = ready_account(addon)
    name = registration.subject.user.rpartition(":")[2]
    settled = account is not None and account.name in ("", name)
    return Wanted(
        addon.cluster,
        Subject(registration.subject.user),
        addon=addon.name,
        lifetime=options.addon_token_life,
        service_account=name,
        service_account_uid=account.uid if account is not None and settled else "",
        rotation=_rotation(addon),
    )


def certificate_wanted(addon: Addon, registration: Registration, options: AgentOptions) -> Wanted:
    """Ask for a certificate with the declared subject."""
    declared = registration.subject
    subject = Subject(declared.user, declared.groups, declared.organization_units)
    return Wanted(
        addon.cluster,
        subject,
        addon=addon.name,
        signer=registration.signer,
        lifetime=options.certificate_life,
        rotation=_rotation(addon),
    )


def _rotation(addon: Addon) -> str:
    """Return the last request for an early renewal; only the hub's administrators can write it."""
    return annotations_of(addon.object).get(Annotation.ROTATION_REQUEST, "")


def token_conditions(said: Iterable[Said]) -> tuple[Condition, ...]:
    """Say it twice: under the type of the design, and under that of the shipped system."""
    word = next(iter(said))
    if word.good:
        return (
            Condition.true(ConditionType.ADDON_TOKEN_REFRESHED, "AddonTokenRefreshed", word.message),
            Condition.true(ConditionType.TOKEN_REFRESHED, "AddonTokenRefreshed", word.message),
        )
    return (
        Condition.false(ConditionType.ADDON_TOKEN_REFRESHED, word.reason, word.message),
        Condition.false(ConditionType.TOKEN_REFRESHED, "TokenCreationFailed", word.message),
    )


def certificate_conditions(said: Iterable[Said]) -> tuple[Condition, ...]:
    """Say of all certificates together whether they are good: there is one condition for any number of them."""
    words = list(said)
    bad = [word for word in words if not word.good]
    message = "; ".join(word.message for word in bad or words)
    if bad:
        return (Condition.false(ConditionType.CERTIFICATE_ROTATED, bad[0].reason, message),)
    return (Condition.true(ConditionType.CERTIFICATE_ROTATED, "ClientCertificateUpdated", message),)


KINDS: Mapping[str, CredentialKind] = MappingProxyType(
    {
        "csr": CredentialKind(choose_certificate_subject, certificate_wanted, certificate_conditions),
        "token": CredentialKind(choose_token_subject, token_wanted, token_conditions),
    }
)
