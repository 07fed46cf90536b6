"""What is read of a hub, once or by watching it, before anything is decided."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api import resources
from watchword.api.admission_policy import PolicyName
from watchword.api.bootstrap import CLUSTER_INFO, KUBECONFIG_KEY, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.api.names import CLUSTER_LEASE, HUB_NAMESPACE, Label
from watchword.api.pull_secrets import CONFIGURATION as PULL_SECRETS_CONFIGURATION
from watchword.discovery.cluster_info import read_cluster_info
from watchword.discovery.errors import ClusterInfoRefused
from watchword.discovery.token_secret import IgnoredSecret, TokenRecord, read_token_secret
from watchword.health.audit_log import CredentialUsage
from watchword.operator.process import OPERATOR_LEASE
from watchword.operator.rendering import MANAGED_BY, OPERATOR
from watchword.pki.certificates import Certificate
from watchword.processes.hub import HUB_LEASE
from watchword.pullsecrets.process import PULL_SECRETS_LEASE
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.registration.catalog import CATALOG
from watchword.runtime.informer import WatchScope

FLEET = ("clusters", "add-ons")
UNKNOWN_KIND = "the server does not know the kind: is this a hub?"
FORBIDDEN = "the server does not let you read them"

OURS = WatchScope(labels=f"{Label.MANAGED_BY}={MANAGED_BY}")
LOCKS = {
    "the hub's controllers": HUB_LEASE,
    "the operator": ObjectKey(OPERATOR.namespace, OPERATOR_LEASE),
    "the pull secret controllers": PULL_SECRETS_LEASE,
}
SERVER_SOURCES = {
    f"the certificates of the {server.name}": (resources.CONFIG_MAPS, server.published_scope)
    for server in CATALOG.servers
    if server.published_scope is not None
}
PROCESS_SOURCES: dict[str, tuple[Resource, WatchScope]] = {
    "Deployments": (resources.DEPLOYMENTS, OURS),
    "pods": (resources.PODS, OURS),
    **{f"the lease of {name}": (resources.LEASES, WatchScope.single(key)) for name, key in LOCKS.items()},
    "ClusterManagers": (resources.CLUSTER_MANAGERS, WatchScope()),
    "the configuration of pull secrets": (resources.CONFIG_MAPS, WatchScope.single(PULL_SECRETS_CONFIGURATION)),
}
"""What is read of any cluster on which processes of Watchword may run."""

HUB_SOURCES: dict[str, tuple[Resource, WatchScope]] = {
    "Jobs of the hub": (resources.JOBS, WatchScope(HUB_NAMESPACE)),
    "namespaces of clusters": (resources.NAMESPACES, WatchScope(labels=Label.CLUSTER_NAME)),
    "the admission policy": (
        resources.VALIDATING_ADMISSION_POLICIES,
        WatchScope(fields=f"metadata.name={PolicyName.ACCEPTANCE}"),
    ),
    "the binding of the admission policy": (
        resources.VALIDATING_ADMISSION_POLICY_BINDINGS,
        WatchScope(fields=f"metadata.name={PolicyName.ACCEPTANCE}"),
    ),
}
FLEET_SOURCES: dict[str, tuple[Resource, WatchScope]] = {
    "clusters": (resources.MANAGED_CLUSTERS, WatchScope()),
    "add-ons": (resources.MANAGED_CLUSTER_ADDONS, WatchScope()),
    "leases of clusters": (resources.LEASES, WatchScope(fields=f"metadata.name={CLUSTER_LEASE}")),
    "certificate requests": (resources.CERTIFICATE_SIGNING_REQUESTS, WatchScope(labels=Label.CLUSTER_NAME)),
    "join tokens": (resources.SECRETS, WatchScope(TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}")),
    "the hub's authority": (resources.CONFIG_MAPS, WatchScope.single(CLUSTER_INFO)),
    **SERVER_SOURCES,
}
SOURCES = {**FLEET_SOURCES, **HUB_SOURCES, **PROCESS_SOURCES}
OPTIONAL = frozenset({"ClusterManagers", "Jobs of the hub", "Deployments", "pods"})
"""Kinds that a server need not have: an empty list then, not something unread."""
EVENT_SOURCE = (resources.EVENTS, WatchScope())
PULL_SECRETS, EVENT_ROWS, ACCOUNTS = "pull secrets", "events", "service accounts"


class AccountToken(Struct, frozen=True):
    """Which token the Secret of a managed service account holds, without the token."""

    user: str
    credential_id: str


class ProcessFacts(Struct, frozen=True):
    """The processes of Watchword on one cluster, and what their operator reports."""

    deployments: Sequence[Object] = ()
    pods: Sequence[Object] = ()
    locks: Sequence[Object] = ()  # leases by which processes elect their leader
    managers: Sequence[Object] = ()
    configurations: Sequence[Object] = ()  # of the pull secret controllers
    unseen: Mapping[str, str] = field(default_factory=dict)
    is_hub: bool = False


class HubFacts(Struct, frozen=True):
    """What was read from a hub; `unseen` contains what could not be read and why."""

    clusters: Sequence[Object] = ()
    addons: Sequence[Object] = ()
    leases: Sequence[Object] = ()  # of the agents of clusters
    requests: Sequence[Object] = ()
    tokens: Sequence[TokenRecord] = ()
    ignored_tokens: Sequence[IgnoredSecret] = ()
    cluster_info: Object | None = None
    authorities: Sequence[Certificate] = ()
    accounts: Sequence[Object] = ()
    pull_secrets: Sequence[PullSecret] | None = None  # None: they may not be read
    servers: Sequence[Object] = ()  # the ConfigMaps with the certificates of drivers' servers
    jobs: Sequence[Object] = ()
    namespaces: Sequence[Object] = ()  # of clusters
    policies: Sequence[Object] = ()  # the admission policy about ManagedClusters, and its binding
    processes: ProcessFacts = field(default_factory=ProcessFacts)
    unseen: Mapping[str, str] = field(default_factory=dict)
    absent: frozenset[str] = frozenset()  # sources whose kind the server does not have, and need not have
    usage: CredentialUsage | None = None  # by audit logs; None: none were given
    account_tokens: Mapping[ObjectKey, AccountToken] = field(default_factory=dict)  # read only beside audit logs
    events: Sequence[Object] = ()  # read only by the dashboard

    @property
    def missing(self) -> Mapping[str, str]:
        """What should have been read and was not: a cluster with pull secrets alone need not be a hub."""
        if not self.pull_secrets or any(self.unseen.get(kind) != UNKNOWN_KIND for kind in FLEET):
            return self.unseen
        return {kind: why for kind, why in self.unseen.items() if kind not in FLEET}


def facts_by_source(found: Mapping[str, Sequence[Object]], unseen: Mapping[str, str] | None = None) -> HubFacts:
    """Return facts from lists of objects by the name of their source."""
    secrets = [read_token_secret(secret) for secret in found.get("join tokens", ())]
    published = next(iter(found.get("the hub's authority", ())), None)
    return HubFacts(
        clusters=found.get("clusters", ()),
        addons=found.get("add-ons", ()),
        leases=found.get("leases of clusters", ()),
        requests=sort_by_creation(found.get("certificate requests", ())),
        tokens=[each for each in secrets if isinstance(each, TokenRecord)],
        ignored_tokens=[each for each in secrets if isinstance(each, IgnoredSecret)],
        cluster_info=published,
        authorities=read_authorities(published),
        accounts=found.get(ACCOUNTS, ()),
        pull_secrets=None if PULL_SECRETS not in found else read_each_pull_secret(found[PULL_SECRETS]),
        events=found.get(EVENT_ROWS, ()),
        servers=[obj for name in SERVER_SOURCES for obj in found.get(name, ())],
        jobs=found.get("Jobs of the hub", ()),
        namespaces=found.get("namespaces of clusters", ()),
        policies=[*found.get("the admission policy", ()), *found.get("the binding of the admission policy", ())],
        processes=replace(process_facts(found, unseen or {}), is_hub=True),
        unseen=unseen or {},
    )


def narrow_to_cluster(facts: HubFacts, name: str) -> HubFacts:
    """Return what is about one cluster, and about the hub itself."""

    def inside(objects: Iterable[Object]) -> list[Object]:
        return [each for each in objects if each["metadata"].get("namespace") == name]

    return replace(
        facts,
        clusters=[each for each in facts.clusters if each["metadata"]["name"] == name],
        addons=inside(facts.addons),
        leases=inside(facts.leases),
        accounts=inside(facts.accounts),
        requests=[each for each in facts.requests if labels_of(each).get(Label.CLUSTER_NAME) == name],
        namespaces=[each for each in facts.namespaces if each["metadata"]["name"] == name],
        tokens=(),
        ignored_tokens=(),
        authorities=(),
        pull_secrets=None,
    )


def process_facts(found: Mapping[str, Sequence[Object]], unseen: Mapping[str, str]) -> ProcessFacts:
    return ProcessFacts(
        deployments=found.get("Deployments", ()),
        pods=found.get("pods", ()),
        locks=[lease for name in LOCKS for lease in found.get(f"the lease of {name}", ())],
        managers=found.get("ClusterManagers", ()),
        configurations=found.get("the configuration of pull secrets", ()),
        unseen={name: why for name, why in unseen.items() if name in PROCESS_SOURCES},
    )


def read_authorities(config_map: Object | None) -> tuple[Certificate, ...]:
    try:
        return read_cluster_info(str(((config_map or {}).get("data") or {}).get(KUBECONFIG_KEY) or "")).authorities
    except ClusterInfoRefused:
        return ()


def read_each_pull_secret(secrets: Iterable[Object]) -> list[PullSecret]:
    """Return the pull secrets of ServiceAccounts among Secrets of the cache, which are without tokens."""
    return [found for secret in secrets if (found := PullSecret.read(secret)) is not None]


def sort_by_creation(requests: Sequence[Object]) -> list[Object]:
    return sorted(requests, key=lambda request: str(request["metadata"].get("creationTimestamp") or ""))
