"""Applies what the hub's controllers need."""

from collections.abc import Iterable

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT, CLUSTER_GROUP, HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_SETS,
    NAMESPACES,
    RBAC_GROUP,
    SERVICE_ACCOUNTS,
)
from watchword.kube.client import Client
from watchword.registration.hub.acceptance_policy import policy_manifests, set_binding_policy_manifests
from watchword.registration.hub.cluster_rbac import COMMON_ROLES, rule
from watchword.registration.hub.cluster_sets import BUILT_IN_SETS, DEFAULT_SET
from watchword.registration.hub.executor_policy import executor_policy_manifests
from watchword.registration.hub.request_budget import request_policy_manifests
from watchword.runtime.manifests import apply_manifests

FIELD_MANAGER = "watchword-hub"
BOOTSTRAP_ROLE = "open-cluster-management:bootstrap"

BOOTSTRAP_RULES = [
    rule("", "configmaps", ["get"], ["cluster-info", "kube-root-ca.crt"]),
    rule("certificates.k8s.io", "certificatesigningrequests", ["create", "get", "list", "watch"]),
    rule(CLUSTER_GROUP, "managedclusters", ["create", "get", "list", "watch"]),
    rule(CLUSTER_GROUP, "managedclustersets/join", ["create"], [DEFAULT_SET]),
]
"""What a joining cluster may do before it is accepted. The set of a cluster decides who works with it, so a holder of
a token may not choose it: that needs an authenticated user with the right to do so."""


def manifests(*, demands_executor: bool = False) -> Iterable[tuple[Resource, Object]]:
    for definition in HUB_CRDS:
        yield CUSTOM_RESOURCE_DEFINITIONS, definition
    for name in (HUB_NAMESPACE, BOOTSTRAP_NAMESPACE):
        yield NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name))
    account = ObjectKey(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)
    yield SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account)
    for name, rules in {**COMMON_ROLES, BOOTSTRAP_ROLE: BOOTSTRAP_RULES}.items():
        yield CLUSTER_ROLES, CLUSTER_ROLES.manifest(ObjectKey.cluster(name), rules=rules)
    yield from _bootstrap_bindings(account)
    for name, spec in BUILT_IN_SETS.items():
        yield MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec=spec)
    yield from policy_manifests()
    yield from set_binding_policy_manifests()
    yield from request_policy_manifests()
    yield from executor_policy_manifests(is_demanded=demands_executor)


def _bootstrap_bindings(account: ObjectKey) -> Iterable[tuple[Resource, Object]]:
    subjects: dict[str, Object] = {
        "agent-registration": {"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name},
        "managedcluster": {"kind": "Group", "apiGroup": RBAC_GROUP, "name": MANAGED_CLUSTER_GROUP},
    }
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": BOOTSTRAP_ROLE}
    for name, subject in subjects.items():
        key = ObjectKey.cluster(f"{BOOTSTRAP_ROLE}:{name}")
        yield CLUSTER_ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS.manifest(key, roleRef=reference, subjects=[subject])


async def install(client: Client, *, demands_executor: bool = False) -> None:
    """Apply everything; what is there already as wanted stays as it is."""
    await apply_manifests(client, manifests(demands_executor=demands_executor), manager=FIELD_MANAGER)
