"""A server that a driver brings to the hub, as data: the operator renders what it needs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from watchword.api.meta import ObjectKey
from watchword.api.rbac import RbacRule

ROLE_PREFIX = "open-cluster-management:watchword:"


class PublishedCertificate(Struct, frozen=True, kw_only=True):
    """A certificate of a server that the hub publishes, for the inventory; of several the one that ends last counts."""

    name: str  # as the inventory calls it
    field: str  # of the ConfigMap
    consequence: str  # what happens when it expires
    is_authority: bool = False  # one of those that agents trust, not the one that the server shows


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
    def role(self) -> str:
        """The ClusterRole of the server."""
        return f"{ROLE_PREFIX}{self.name}"

    @property
    def signer_role(self) -> str:
        """The ClusterRole of what the hub's controllers do for it everywhere."""
        return f"{ROLE_PREFIX}{self.name}-signer"

    @property
    def controller_role(self) -> str:
        """The ClusterRole of what they do for it in the hub's namespace, bound there alone."""
        return f"{ROLE_PREFIX}{self.name}-controller"

    @property
    def roles(self) -> Mapping[str, tuple[RbacRule, ...]]:
        """All roles with their rules."""
        rows = {self.role: self.rules, self.signer_role: self.signer_rules, self.controller_role: self.controller_rules}
        return {name: rules for name, rules in rows.items() if rules}
