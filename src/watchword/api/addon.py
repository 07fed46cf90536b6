"""The ManagedClusterAddOn as the hub, the agent and the add-on's author read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey, annotations_of, finalizers_of, is_deleting, uid_of
from watchword.api.names import (
    ADDON_NAMESPACE,
    KUBE_CLIENT_SIGNER,
    Annotation,
    ConditionType,
    Finalizer,
    addon_fleet_group,
    addon_group,
    addon_service_account,
    addon_service_account_short,
    addon_user,
    service_account_user,
)
from watchword.api.validation import is_dns_label

KUBE_CLIENT = "kubeClient"
CUSTOM_SIGNER = "customSigner"
EXPLICITLY_EMPTY = "__reserved_no_default__"
_READY = re.compile(r"(?:ServiceAccount (?P<namespace>[^/\s]+)/(?P<name>[^/\s]+) )?\(UID: (?P<uid>[^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class AddonSubject:
    """The subject of an add-on's credential. Read from a status it is a claim: the agent may write it."""

    user: str = ""
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()

    @classmethod
    def read(cls, row: Mapping[str, Any] | None) -> AddonSubject:
        """Read either spelling of a subject."""
        row = row or {}
        units = row.get("organizationUnits") or row.get("organizationUnit") or ()
        return cls(str(row.get("user") or ""), tuple(row.get("groups") or ()), tuple(units))

    def document(self) -> Object:
        """Return the subject as a status holds it; empty fields are left out."""
        rows = {"user": self.user, "groups": list(self.groups), "organizationUnits": list(self.organization_units)}
        return {name: value for name, value in rows.items() if value}


@dataclass(frozen=True, slots=True)
class Registration:
    """One credential that an add-on needs, according to its status."""

    type: str
    signer: str
    subject: AddonSubject = field(default_factory=AddonSubject)
    driver: str = ""  # declared by the agent; empty until it has
    legacy: bool = False  # spelled as in v1alpha1

    @classmethod
    def read(cls, row: Mapping[str, Any], status: Mapping[str, Any]) -> Registration:
        """Read either shape of an entry."""
        if row.get("type") == KUBE_CLIENT:
            inner: Mapping[str, Any] = row.get(KUBE_CLIENT) or {}
            return cls(
                KUBE_CLIENT, KUBE_CLIENT_SIGNER, AddonSubject.read(inner.get("subject")), str(inner.get("driver") or "")
            )
        if row.get("type") == CUSTOM_SIGNER:
            inner = row.get(CUSTOM_SIGNER) or {}
            return cls(CUSTOM_SIGNER, str(inner.get("signerName") or ""), AddonSubject.read(inner.get("subject")))
        signer, subject = str(row.get("signerName") or ""), AddonSubject.read(row.get("subject"))
        if signer == KUBE_CLIENT_SIGNER:
            return cls(KUBE_CLIENT, signer, subject, str(status.get("kubeClientDriver") or ""), legacy=True)
        return cls(CUSTOM_SIGNER, signer, subject, legacy=True)

    def document(self) -> Object:
        """Return the entry in the shape it was read in."""
        subject = self.subject.document()
        if self.legacy:
            return {"signerName": self.signer, **({"subject": subject} if subject else {})}
        inner: Object = {"subject": subject} if subject else {}
        if self.type == CUSTOM_SIGNER:
            return {"type": self.type, CUSTOM_SIGNER: {"signerName": self.signer, **inner}}
        return {"type": self.type, KUBE_CLIENT: {**({"driver": self.driver} if self.driver else {}), **inner}}

    def secret_name(self, addon: str) -> str:
        """Return the name of the Secret that holds the credential on the managed cluster."""
        if self.type == KUBE_CLIENT:
            return f"{addon}-hub-kubeconfig"
        return f"{addon}-{self.signer.replace('/', '-')}-client-cert"


@dataclass(frozen=True, slots=True)
class Addon:
    """A ManagedClusterAddOn, read from its object. Hub and agent both write its status."""

    name: str
    cluster: str
    uid: str
    deleting: bool
    finalizers: tuple[str, ...]
    install_namespace: str  # empty: the agent's default
    registrations: tuple[Registration, ...]
    healthy_by_lease: bool
    object: Object = field(repr=False)

    @classmethod
    def read(cls, obj: Object) -> Addon:
        """Read the object; absent fields take the schema's defaults."""
        status: Mapping[str, Any] = obj.get("status") or {}
        key = ObjectKey.of(obj)
        return cls(
            name=key.name,
            cluster=key.namespace,
            uid=uid_of(obj),
            deleting=is_deleting(obj),
            finalizers=tuple(finalizers_of(obj)),
            install_namespace=str(status.get("namespace") or "") or requested_namespace(obj),
            registrations=tuple(Registration.read(row, status) for row in status.get("registrations") or ()),
            healthy_by_lease=(status.get("healthCheck") or {}).get("mode", "Lease") == "Lease",
            object=obj,
        )

    @property
    def key(self) -> ObjectKey:
        """The key of the ManagedClusterAddOn."""
        return ObjectKey(self.cluster, self.name)

    @property
    def kube_client(self) -> Registration | None:
        """The registration for the hub's API, None when the add-on needs none."""
        return next((row for row in self.registrations if row.type == KUBE_CLIENT), None)

    @property
    def driver(self) -> str:
        """The driver that the agent declared, empty when it has not."""
        return self.kube_client.driver if self.kube_client is not None else ""

    @property
    def finishing(self) -> bool:
        """Whether it is being deleted and a hook still has to run, for which it needs its credential."""
        return self.deleting and Finalizer.ADDON_PRE_DELETE in self.finalizers

    def namespace_on_cluster(self, default: str = ADDON_NAMESPACE) -> str:
        """Return the namespace in which the add-on's agent runs."""
        return self.install_namespace or default

    def registration_fields(self, registrations: tuple[Registration, ...]) -> Object:
        """Return the status fields with that namespace, in the version the add-on's author uses."""
        fields: Object = {"registrations": [row.document() for row in registrations]}
        legacy = next((row for row in registrations if row.legacy and row.type == KUBE_CLIENT), None)
        if legacy is not None and legacy.driver:
            fields["kubeClientDriver"] = legacy.driver
        return fields


def requested_namespace(obj: Object) -> str:
    """Return the namespace that an administrator chose for an add-on; its agent cannot change it."""
    said = annotations_of(obj).get(Annotation.INSTALL_NAMESPACE, "")
    asked = "" if said == EXPLICITLY_EMPTY else said
    return str(asked or (obj.get("spec") or {}).get("installNamespace") or "")


@dataclass(frozen=True, slots=True)
class SubjectRule:
    """The subject of an add-on under one driver: rebuilt from cluster and add-on, never taken from a claim."""

    default: Callable[[str, str], AddonSubject]
    is_own: Callable[[str, str, AddonSubject], bool]
    conditions: tuple[str, ...]  # the types with which the agent reports about this driver's credential
    declared_by_agent: bool  # False: Open Cluster Management's agents leave it to the hub, which fills in the default


def service_accounts(cluster: str, addon: str) -> tuple[str, str]:
    """Return both names that an add-on's ServiceAccount may have: the default, and Open Cluster Management's."""
    return addon_service_account(cluster, addon), addon_service_account_short(addon)


def token_subject(cluster: str, account: str) -> AddonSubject:
    """Return the subject of an add-on whose credential is a token."""
    return AddonSubject(service_account_user(cluster, account))


def certificate_subject(cluster: str, addon: str) -> AddonSubject:
    """Return the default subject of an add-on whose credential is a certificate."""
    agent = addon if is_dns_label(addon) else "agent"
    return AddonSubject(addon_user(cluster, addon, agent), (addon_group(cluster, addon), addon_fleet_group(addon)))


def _is_own_token(cluster: str, addon: str, subject: AddonSubject) -> bool:
    return subject in tuple(token_subject(cluster, name) for name in service_accounts(cluster, addon))


def _is_own_certificate(cluster: str, addon: str, subject: AddonSubject) -> bool:
    agent = subject.user.removeprefix(addon_user(cluster, addon, ""))
    own = {addon_group(cluster, addon)}
    fleet = own | {addon_fleet_group(addon)}
    known = (own, fleet, fleet | {"system:authenticated"})
    rebuilt = subject.user == addon_user(cluster, addon, agent) and is_dns_label(agent)
    return rebuilt and set(subject.groups) in known and not subject.organization_units


KUBE_CLIENT_DRIVERS: Mapping[str, SubjectRule] = MappingProxyType(
    {
        "csr": SubjectRule(
            certificate_subject, _is_own_certificate, (ConditionType.CERTIFICATE_ROTATED,), declared_by_agent=False
        ),
        "token": SubjectRule(
            lambda cluster, addon: token_subject(cluster, addon_service_account(cluster, addon)),
            _is_own_token,
            (ConditionType.ADDON_TOKEN_REFRESHED, ConditionType.TOKEN_REFRESHED),
            declared_by_agent=True,
        ),
    }
)
"""Every driver by which an add-on gets a credential for the hub's API, and the subject it gets."""


def credential_condition(addon: Addon) -> Condition | None:
    """Return the condition about an add-on's credential, by either spelling of its type; None when there is none."""
    rule = KUBE_CLIENT_DRIVERS.get(addon.driver or "csr")
    found = (find_condition(addon.object, type_) for type_ in (rule.conditions if rule is not None else ()))
    return next((condition for condition in found if condition is not None), None)


@dataclass(frozen=True, slots=True)
class TokenAccount:
    """The ServiceAccount that the hub made ready, read from the condition's message."""

    name: str  # empty when the message does not name it
    uid: str
    namespace: str = ""


def ready_message(account: ObjectKey, uid: str) -> str:
    """Return the message from which agents, ours and Open Cluster Management's, read the UID."""
    return f"ServiceAccount {account} (UID: {uid}) is ready"


def parse_ready_message(message: str) -> TokenAccount | None:
    """Return what the message contains, None when it has no UID."""
    found = _READY.search(message)
    if found is None:
        return None
    return TokenAccount(found["name"] or "", found["uid"], found["namespace"] or "")
