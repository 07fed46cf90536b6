"""Finds what the bindings of a holder allow it now, so that its end can be observed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from watchword.admin.revoke.refusals import AccessProbe
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import service_account_user
from watchword.api.resources import CLUSTER_ROLES, ROLES
from watchword.kube.access_reviews import ResourceAccess, UserIdentity
from watchword.kube.client import Client

ANY = "*"
EXAMPLES = {"verbs": "get", "resources": "configmaps", "apiGroups": ""}  # what stands for a rule's `*`


async def find_access_probes(client: Client, bindings: Sequence[Object]) -> tuple[AccessProbe, ...]:
    """Return one probe for each subject of these RoleBindings, with one access for each binding."""
    found: dict[UserIdentity, list[ResourceAccess]] = {}
    for binding in bindings:
        access = choose_access(await _rules(client, binding), ObjectKey.of(binding).namespace)
        for subject in binding.get("subjects") or ():
            if access is not None:
                found.setdefault(subject_identity(subject), []).append(access)
    return tuple(
        AccessProbe(who.username or who.groups[0], client, who, tuple(accesses)) for who, accesses in found.items()
    )


async def _rules(client: Client, binding: Object) -> list[Object]:
    reference = binding["roleRef"]
    shared = reference["kind"] == CLUSTER_ROLES.kind
    namespace = "" if shared else ObjectKey.of(binding).namespace
    role = await client.find(CLUSTER_ROLES if shared else ROLES, ObjectKey(namespace, reference["name"]))
    return (role or {}).get("rules") or []


def choose_access(rules: Iterable[Object], namespace: str) -> ResourceAccess | None:
    """Return an access that the rules allow in a namespace; None when they allow none."""
    for rule in rules:
        verb, resource = _first(rule, "verbs"), _first(rule, "resources")
        group = _first(rule, "apiGroups")
        if verb is None or resource is None or group is None:
            continue
        plural, _, subresource = resource.partition("/")
        name = next(iter(rule.get("resourceNames") or ()), "")
        return ResourceAccess(verb, Resource(group, "v1", plural, ""), ObjectKey(namespace, name), subresource)
    return None


def _first(rule: Object, field: str) -> str | None:
    values = rule.get(field) or ()
    first = next(iter(values), None)
    return EXAMPLES[field] if first == ANY else first


def subject_identity(subject: Object) -> UserIdentity:
    """Return the identity that a binding's subject stands for, without groups that many identities share."""
    name = str(subject["name"])
    match subject["kind"]:
        case "Group":
            return UserIdentity("", groups=(name,))
        case "ServiceAccount":
            return UserIdentity(service_account_user(str(subject.get("namespace") or ""), name))
        case _:
            return UserIdentity(name)
