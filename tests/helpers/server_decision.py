"""Waits until a server decides from the present objects.

kube-apiserver decides about requests from caches of tokens, policies and bindings, which follow the stored objects
without a signal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, RBAC_GROUP, ROLE_BINDINGS, ROLES
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden

PATIENCE = 60.0
Attempt: TypeAlias = Callable[[], Awaitable[object]]


async def until_refused(attempt: Attempt, error: type[Exception] = Forbidden) -> None:
    """Repeat a request until a policy is enforced, or a right or a credential is withdrawn."""
    await _until(lambda: _is_refused(attempt, error))


async def until_allowed(attempt: Attempt) -> None:
    """Repeat a request until its right is granted."""
    await _until(lambda: _is_refused(attempt, Forbidden), decision=False)


async def _is_refused(attempt: Attempt, error: type[Exception]) -> bool:
    try:
        await attempt()
    except error:
        return True
    return False


async def _until(decide: Callable[[], Awaitable[bool]], *, decision: bool = True) -> None:
    async with asyncio.timeout(PATIENCE):
        while await decide() is not decision:  # noqa: ASYNC110 - the server gives no signal
            await asyncio.sleep(0.1)


async def grant(client: Client, key: ObjectKey, rules: Sequence[Object], user: str) -> None:
    """Bind a user to a new role, of the cluster or of a namespace; return once the server decides by it."""
    roles, bindings = (ROLES, ROLE_BINDINGS) if key.namespace else (CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS)
    reference = {"apiGroup": RBAC_GROUP, "kind": roles.kind, "name": key.name}
    subject = {"apiGroup": RBAC_GROUP, "kind": "User", "name": user}
    await client.create(roles, roles.manifest(key, rules=list(rules)))
    await client.create(bindings, bindings.manifest(key, roleRef=reference, subjects=[subject]))
    for access in [_first_access(rule, key.namespace) for rule in rules]:
        await _until(partial(may, client, UserIdentity(user), access))


def _first_access(rule: Object, namespace: str) -> ResourceAccess:
    plural, _, subresource = rule["resources"][0].partition("/")
    resource = Resource(group=rule["apiGroups"][0], version="*", plural=plural, kind="", namespaced=bool(namespace))
    name = next(iter(rule.get("resourceNames", ())), "")
    return ResourceAccess(rule["verbs"][0], resource, ObjectKey(namespace, name), subresource)
