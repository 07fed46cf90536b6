"""What a hub must have before its controllers can keep their promises."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from watchword.api.conditions import is_true
from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT, HUB_NAMESPACE
from watchword.api.resources import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_SETS,
    NAMESPACES,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.hub.acceptance_guard import BOOTSTRAP_GROUP, policy_manifests
from watchword.hub.access import CLUSTER_GROUP, COMMON_ROLES, RBAC_GROUP, rule
from watchword.hub.cluster_sets import BUILT_IN_SETS
from watchword.kube.client import Client
from watchword.kube.errors import NotFound

FIELD_MANAGER = "watchword-hub"
LOOK_AGAIN = 0.1  # seconds
ATTEMPTS = 50
BOOTSTRAP_ROLE = "open-cluster-management:bootstrap"

BOOTSTRAP_RULES = [
    rule("", "configmaps", ["get"], ["cluster-info", "kube-root-ca.crt"]),
    rule("certificates.k8s.io", "certificatesigningrequests", ["create", "get", "list", "watch"]),
    rule(CLUSTER_GROUP, "managedclusters", ["create", "get", "list", "watch"]),
    rule(CLUSTER_GROUP, "managedclustersets/join", ["create"]),
]
"""What a joining cluster may do before it is anybody."""


def manifests() -> Iterable[tuple[Resource, Object]]:
    """Return everything, in an order in which it can be applied."""
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
    policy, binding = policy_manifests()
    yield VALIDATING_ADMISSION_POLICIES, policy
    yield VALIDATING_ADMISSION_POLICY_BINDINGS, binding


def _bootstrap_bindings(account: ObjectKey) -> Iterable[tuple[Resource, Object]]:
    subjects: dict[str, Object] = {
        "agent-registration": {"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name},
        "managedcluster": {"kind": "Group", "apiGroup": RBAC_GROUP, "name": BOOTSTRAP_GROUP},
    }
    reference = {"apiGroup": RBAC_GROUP, "kind": "ClusterRole", "name": BOOTSTRAP_ROLE}
    for name, subject in subjects.items():
        key = ObjectKey.cluster(f"{BOOTSTRAP_ROLE}:{name}")
        yield CLUSTER_ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS.manifest(key, roleRef=reference, subjects=[subject])


async def install(client: Client) -> None:
    """Apply everything; what is there already as wanted stays as it is."""
    rows = list(manifests())
    definitions = [obj for resource, obj in rows if resource is CUSTOM_RESOURCE_DEFINITIONS]
    await asyncio.gather(*(establish(client, obj) for obj in definitions))
    for resource, obj in rows:
        if resource is not CUSTOM_RESOURCE_DEFINITIONS:
            await apply(client, resource, obj)


async def establish(client: Client, definition: Object, *, patience: timedelta = timedelta(seconds=30)) -> None:
    """Apply a CustomResourceDefinition and wait until its kind is served."""
    found = await client.apply(CUSTOM_RESOURCE_DEFINITIONS, definition, manager=FIELD_MANAGER, force=True)
    async with asyncio.timeout(patience.total_seconds()):
        while not is_true(found, "Established"):
            await asyncio.sleep(LOOK_AGAIN)
            found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(definition))


async def apply(client: Client, resource: Resource, obj: Object, *, manager: str = FIELD_MANAGER) -> None:
    """Apply one object; a kind that was established just now may take a moment until every path to it is."""
    for attempt in range(ATTEMPTS):
        try:
            await client.apply(resource, obj, manager=manager, force=True)
        except NotFound:
            # A server that does not serve admission policies enforces the rule itself, or the guard will say so.
            if resource.group == VALIDATING_ADMISSION_POLICIES.group:
                return
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(LOOK_AGAIN)
        else:
            return
