"""The definition of an add-on, from which its hub controllers follow."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import TypeAlias

from msgspec import Struct, field

from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, Addon, AddonSubject, Registration, certificate_subject
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER

BY_LEASE, BY_FEEDBACK = "Lease", "Customized"


class AddonInstance(Struct, frozen=True):
    """One add-on on one cluster."""

    addon: Addon
    cluster: Cluster


Manifests: TypeAlias = Callable[[AddonInstance], Sequence[Object]]
"""Everything that is applied on a cluster to install the add-on there."""


class Grant(Struct, frozen=True):
    """A right that the add-on's agent has on the hub: rules of its own, or a role that exists.

    It holds in the namespace of the agent's own cluster, or in the one namespace named here.
    """

    name: str
    rules: tuple[Object, ...] = ()
    role: str = ""  # an existing role, instead of rules
    role_kind: str = "ClusterRole"
    namespace: str = ""
    remedy: str = "Kubernetes lets a process give only rights that it holds: give its account the same"  # when refused


class Signer(Struct, frozen=True):
    """Certificates for something else than the hub's API, signed with an authority of the add-on's own."""

    name: str
    authority: ObjectKey | None = None  # a Secret with tls.crt and tls.key; None: another program signs
    subject: Callable[[AddonInstance], AddonSubject] | None = None  # None: the default user name
    lifetime: timedelta = timedelta(hours=24)
    objection: str = ""  # why nothing is approved or signed in its name, where the definition comes from another author

    def subject_for(self, instance: AddonInstance) -> AddonSubject:
        """Return the only subject that is ever signed for an add-on of that cluster."""
        if self.subject is not None:
            return self.subject(instance)
        return AddonSubject(certificate_subject(instance.cluster.name, instance.addon.name).user)


class AddonDefinition(Struct, frozen=True):
    """An add-on as its author describes it."""

    name: str
    grants: tuple[Grant, ...] = ()
    signers: tuple[Signer, ...] = ()
    manifests: Manifests = field(default=lambda _: ())
    uses_hub: bool = True  # its agent uses the hub's API
    install_namespace: str = ""  # empty: the one that the administrator chose for the add-on, else the default
    health: str = BY_LEASE
    trusted: frozenset[str] = frozenset()  # grants that the hub's administrator allows although they are dangerous
    manifest_configs: tuple[Object, ...] = ()  # how its works treat single manifests
    objection: Condition | None = None  # why nothing can be installed at present; what is installed stays

    def registrations(self, instance: AddonInstance) -> tuple[Registration, ...]:
        """Return the credentials that the agent has to obtain; the agent declares the subject."""
        rows = [Registration(KUBE_CLIENT, KUBE_CLIENT_SIGNER)] if self.uses_hub else []
        rows += [
            Registration(CUSTOM_SIGNER, signer.name, signer.subject_for(instance) if signer.subject else AddonSubject())
            for signer in self.signers
        ]
        return tuple(rows)

    def signer(self, name: str) -> Signer | None:
        return next((signer for signer in self.signers if signer.name == name), None)


DefinitionLookup: TypeAlias = Callable[[Object], AddonDefinition | None]
"""Returns the definition of a ManagedClusterAddOn; None when it belongs to another manager."""
