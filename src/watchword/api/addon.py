"""The ManagedClusterAddOn as the hub, the agent and the add-on's author read it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from watchword.api import meta, names
from watchword.api.sensitive import HiddenFields
from watchword.api.validation import is_dns_label

KUBE_CLIENT = "kubeClient"
CUSTOM_SIGNER = "customSigner"
EXPLICITLY_EMPTY = "__reserved_no_default__"
SERVED_IN_HUB, SERVED_IN_PROCESS = "hub", "process"
"""Which process serves a built-in add-on: that of the hub, or one of its own."""


def is_served_in_hub(known: meta.Object | None) -> bool:
    return meta.annotations_of(known or {}).get(names.Annotation.ADDON_MANAGER) == SERVED_IN_HUB


class AddonSubject(Struct, frozen=True):
    """The subject of an add-on's credential. Read from a status it is a claim: the agent may write it."""

    user: str = ""
    groups: tuple[str, ...] = ()
    organization_units: tuple[str, ...] = ()

    @classmethod
    def read(cls, row: Any) -> AddonSubject:
        units = meta.list_at(row, "organizationUnits") or meta.list_at(row, "organizationUnit")
        user = str(meta.mapping_at(row).get("user") or "")
        return cls(user, tuple(map(str, meta.list_at(row, "groups"))), tuple(map(str, units)))

    def document(self) -> meta.Object:
        rows = {"user": self.user, "groups": list(self.groups), "organizationUnits": list(self.organization_units)}
        return {name: value for name, value in rows.items() if value}


class Registration(Struct, frozen=True):
    """One credential that an add-on needs, according to its status."""

    type: str
    signer: str
    subject: AddonSubject = field(default_factory=AddonSubject)
    driver: str = ""  # declared by the agent; empty until it has
    legacy: bool = False  # spelled as in v1alpha1

    @classmethod
    def read(cls, row: Mapping[str, Any], status: Mapping[str, Any]) -> Registration:
        if row.get("type") == KUBE_CLIENT:
            inner = meta.mapping_at(row, KUBE_CLIENT)
            return cls(
                KUBE_CLIENT,
                names.KUBE_CLIENT_SIGNER,
                AddonSubject.read(inner.get("subject")),
                str(inner.get("driver") or ""),
            )
        if row.get("type") == CUSTOM_SIGNER:
            inner = meta.mapping_at(row, CUSTOM_SIGNER)
            return cls(CUSTOM_SIGNER, str(inner.get("signerName") or ""), AddonSubject.read(inner.get("subject")))
        signer, subject = str(row.get("signerName") or ""), AddonSubject.read(row.get("subject"))
        if signer == names.KUBE_CLIENT_SIGNER:
            return cls(KUBE_CLIENT, signer, subject, str(status.get("kubeClientDriver") or ""), legacy=True)
        return cls(CUSTOM_SIGNER, signer, subject, legacy=True)

    def document(self) -> meta.Object:
        subject = self.subject.document()
        if self.legacy:
            return {"signerName": self.signer, **({"subject": subject} if subject else {})}
        inner: meta.Object = {"subject": subject} if subject else {}
        if self.type == CUSTOM_SIGNER:
            return {"type": self.type, CUSTOM_SIGNER: {"signerName": self.signer, **inner}}
        return {"type": self.type, KUBE_CLIENT: {**({"driver": self.driver} if self.driver else {}), **inner}}

    def secret_name(self, addon: str) -> str:
        if self.type == KUBE_CLIENT:
            return f"{addon}-hub-kubeconfig"
        return f"{addon}-{self.signer.replace('/', '-')}-client-cert"


class Addon(HiddenFields, frozen=True):
    """A ManagedClusterAddOn, read from its object. Hub and agent both write its status."""

    hidden = ("object",)

    name: str
    cluster: str
    uid: str
    deleting: bool
    finalizers: tuple[str, ...]
    install_namespace: str  # empty: the agent's default
    registrations: tuple[Registration, ...]
    healthy_by_lease: bool
    object: meta.Object

    @classmethod
    def read(cls, obj: meta.Object) -> Addon:
        """Read the object; absent fields take the schema's defaults."""
        status = meta.mapping_at(obj, "status")
        key = meta.ObjectKey.of(obj)
        return cls(
            name=key.name,
            cluster=key.namespace,
            uid=meta.uid_of(obj),
            deleting=meta.is_deleting(obj),
            finalizers=tuple(meta.finalizers_of(obj)),
            install_namespace=str(status.get("namespace") or "") or requested_namespace(obj),
            registrations=tuple(Registration.read(row, status) for row in meta.rows_at(status, "registrations")),
            healthy_by_lease=meta.mapping_at(status, "healthCheck").get("mode", "Lease") == "Lease",
            object=obj,
        )

    @property
    def key(self) -> meta.ObjectKey:
        return meta.ObjectKey(self.cluster, self.name)

    @property
    def kube_client(self) -> Registration | None:
        return next((row for row in self.registrations if row.type == KUBE_CLIENT), None)

    @property
    def driver(self) -> str:
        return self.kube_client.driver if self.kube_client is not None else ""

    @property
    def rotation_request(self) -> str:
        """The last request for an early renewal; only the hub's administrators can write it."""
        return meta.annotations_of(self.object).get(names.Annotation.ROTATION_REQUEST, "")

    @property
    def finishing(self) -> bool:
        """Whether it is being deleted and a hook still has to run, for which it needs its credential."""
        return self.deleting and names.Finalizer.ADDON_PRE_DELETE in self.finalizers

    def namespace_on_cluster(self, default: str = names.ADDON_NAMESPACE) -> str:
        return self.install_namespace or default

    def registration_fields(self, registrations: tuple[Registration, ...]) -> meta.Object:
        fields: meta.Object = {"registrations": [row.document() for row in registrations]}
        legacy = next((row for row in registrations if row.legacy and row.type == KUBE_CLIENT), None)
        if legacy is not None and legacy.driver:
            fields["kubeClientDriver"] = legacy.driver
        return fields


def requested_namespace(obj: meta.Object) -> str:
    """Return the namespace that an administrator chose for an add-on; its agent cannot change it."""
    said = meta.annotations_of(obj).get(names.Annotation.INSTALL_NAMESPACE, "")
    asked = "" if said == EXPLICITLY_EMPTY else said
    return str(asked or meta.mapping_at(obj, "spec").get("installNamespace") or "")


def certificate_subject(cluster: str, addon: str) -> AddonSubject:
    agent = addon if is_dns_label(addon) else "agent"
    return AddonSubject(
        names.addon_user(cluster, addon, agent), (names.addon_group(cluster, addon), names.addon_fleet_group(addon))
    )
