"""A server that a driver brings to the hub, as data: the operator renders what it needs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey
from watchword.api.rbac import RbacRule
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.runtime.informer import WatchScope

ROLE_PREFIX = "open-cluster-management:watchword:"


class PublishedCertificate(Struct, frozen=True, kw_only=True):
    """A certificate of a server that the hub publishes, for the inventory; of several the one that ends last counts."""

    name: str  # as the inventory calls it
    field: str  # of the ConfigMap
    consequence: str  # what happens when it expires
    is_authority: bool = False  # one of those that agents trust, not the one that the server shows

    def read(self, published: Object) -> Certificate | None:
        """Return the certificate in the ConfigMap of the server; None when there is none, or it is damaged."""
        pem = str((published.get("data") or {}).get(self.field) or "")
        try:
            return max(split_bundle(pem.encode()), key=lambda each: each.not_after) if pem else None
        except PkiError:
            return None


class HubServer(Struct, frozen=True, kw_only=True):
    """One Deployment with its Service, its account and its rights."""

    name: str  # of Deployment and Service, after that of the ClusterManager
    service_account: str
    port: int
    arguments: tuple[str, ...]  # of the command, without the image
    rules: tuple[RbacRule, ...]  # what it may do on the hub
    signer_rules: tuple[RbacRule, ...] = ()  # what the hub's controllers may do for it, everywhere
    controller_rules: tuple[RbacRule, ...] = ()  # what they may do for it in the hub's namespace
    secrets: Mapping[str, str] = field(default_factory=dict)  # name → mount path
    config_maps: Mapping[str, str] = field(default_factory=dict)  # name → mount path
    published: ObjectKey | None = None  # the ConfigMap with its public certificates
    certificates: tuple[PublishedCertificate, ...] = ()  # what is in there
    exposure: str = ""  # the protocol by which `serverConfiguration.endpointsExposure` names its addresses

    @property
    def published_scope(self) -> WatchScope | None:
        if self.published is None:
            return None
        return WatchScope(self.published.namespace, fields=f"metadata.name={self.published.name}")

    @property
    def role(self) -> str:
        return f"{ROLE_PREFIX}{self.name}"

    @property
    def signer_role(self) -> str:
        return f"{ROLE_PREFIX}{self.name}-signer"

    @property
    def controller_role(self) -> str:
        """The ClusterRole of what they do for it in the hub's namespace, bound there alone."""
        return f"{ROLE_PREFIX}{self.name}-controller"

    @property
    def roles(self) -> Mapping[str, tuple[RbacRule, ...]]:
        rows = {self.role: self.rules, self.signer_role: self.signer_rules, self.controller_role: self.controller_rules}
        return {name: rules for name, rules in rows.items() if rules}
