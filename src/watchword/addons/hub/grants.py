"""Writes an add-on's rights: validated first, bound to the rebuilt subject, removed when no longer declared."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from watchword.addons.catalog import AddonCatalog
from watchword.addons.definition import AddonDefinition, AddonInstance, Grant
from watchword.addons.driver import AddonDriver, RequestsAddonCertificate
from watchword.api.addon import AddonSubject, Registration
from watchword.api.conditions import find_condition
from watchword.api.meta import Manifest, Object, ObjectKey, labels_of, owner_reference
from watchword.api.names import ADDON_GROUP, HUB_NAMESPACES, WORK_GROUP, ConditionType, Label
from watchword.api.resources import (
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
)
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.cache import Cache
from watchword.runtime.diff import choose_changes
from watchword.runtime.ensure import Ensurer

ALWAYS_DANGEROUS_VERBS = frozenset({"*", "escalate", "bind", "impersonate", "approve", "sign", "attest"})
READING = frozenset({"get", "list", "watch"})
DANGEROUS_RESOURCES = frozenset(
    {
        "serviceaccounts/token",
        "certificatesigningrequests/approval",
        "certificatesigningrequests/status",
        "managedclusters/accept",
        "managedclusteraddons/status",
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "pods/ephemeralcontainers",
    }
)
"""Writing these gives another identity, or decides about identities and rights of others."""

DANGEROUS_TO_WRITE = {
    WORK_GROUP: {"manifestworks", "manifestworks/status", "manifestworkreplicasets"},
    ADDON_GROUP: {"managedclusteraddons", "clustermanagementaddons", "addontemplates"},
    "": {"serviceaccounts", "pods", "podtemplates", "replicationcontrollers"},
    "apps": {"daemonsets", "deployments", "replicasets", "statefulsets"},
    "batch": {"cronjobs", "jobs"},
}
"""What these describe runs, or gets credentials, with the rights of others: the work agent, the hub, any account."""

CONNECTING = frozenset({"pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "services/proxy", "nodes/proxy"})
"""Reading these suffices to run commands in a container or to connect to it."""

INDEX = "addon-rights"
BY_ROLE = "addon-rights-by-role"
BY_REFUSAL = "addons-refused-by-namespace"
REFUSED = "PermissionRefused"


class GrantWriter(Struct, frozen=True):
    """Keeps Roles and RoleBindings of add-ons' agents."""

    reader: Cache
    client: Client
    ensurer: Ensurer
    catalog: AddonCatalog

    async def validate(self, definition: AddonDefinition, instance: AddonInstance, grant: Grant) -> list[str]:
        """Return what is dangerous about a grant; nothing when the administrator trusts it by name."""
        if grant.name in definition.trusted:
            return []
        others = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(grant.namespace)) if grant.namespace else None
        clusters = [grant.namespace] if others is not None else []
        place = validate_grant_namespace(
            grant.namespace, own=instance.cluster.name, clusters=clusters, reserved=HUB_NAMESPACES
        )
        found = [place] if grant.namespace and place else []
        rules = await self._rules(grant, instance)
        if rules is None:
            found.append(f"there is no {grant.role_kind} {grant.role}, and its rules cannot be validated: create it")
        return [f"{grant.name}: {text}" for text in (*found, *validate_rules(rules or ()))]

    async def _rules(self, grant: Grant, instance: AddonInstance) -> list[Object] | None:
        """Return what a grant really gives, None while the role that it names does not exist."""
        if not grant.role:
            return list(grant.rules)
        own = grant.namespace or instance.cluster.name  # where the binding will look for a Role
        kind, namespace = (CLUSTER_ROLES, "") if grant.role_kind == "ClusterRole" else (ROLES, own)
        key = ObjectKey(namespace, grant.role)
        # The cache reports every change. What it has not seen may have been created a moment ago.
        role = self.reader.get(kind, key) or await self.client.find(kind, key)
        return None if role is None else list(role.get("rules") or [])

    def subjects(self, instance: AddonInstance, grant: Grant, identity: Registration) -> list[Object]:
        """Return whom a grant is bound to: the identity, and the former one until the new credential is reported.

        A subject that is an object on the hub counts only while the object exists and was made for this add-on.
        """
        driver = self.catalog.by_name[identity.driver]
        found = self._subject(instance, driver, identity.subject)
        subjects = [found] if found is not None else []
        binding = self.reader.get(ROLE_BINDINGS, _name(instance, grant)) or {}
        others = [row for row in binding.get("subjects") or () if row not in subjects]
        said = driver.credential.find_condition(instance.addon.object) if others else None
        for other in self.catalog.drivers if others and (said is None or said.status != "True") else ():
            default = other.subjects.default(instance.cluster.name, instance.addon.name)
            former = self._subject(instance, other, default) if other is not driver else None
            if former is not None and former in others:
                subjects.append(former)
        return subjects

    def _subject(self, instance: AddonInstance, driver: AddonDriver, subject: AddonSubject) -> Object | None:
        cluster, addon = instance.cluster, instance.addon
        if driver.subject_object is not None and not driver.subject_object.is_present(self.reader, addon, subject):
            return None
        if cluster.name_used_before and isinstance(driver, RequestsAddonCertificate):
            # Credentials of the earlier cluster's add-on have the group, too.
            user = driver.subject_in_reused_name(cluster.name, addon.name, cluster.uid).user
            return {"kind": "User", "apiGroup": RBAC_GROUP, "name": user}
        return driver.subjects.rbac_subject(cluster.name, addon.name, subject)

    def is_written(self, instance: AddonInstance, grant: Grant, identity: Registration) -> bool:
        """Whether the cache shows a grant exactly as wanted, so that no request is needed."""
        rows = self._manifests(instance, grant, identity)
        present = [(self.reader.get(resource, ObjectKey.of(obj)), obj) for resource, obj in rows]
        return all(found is not None and choose_changes(found, obj) is None for found, obj in present)

    async def write(self, instance: AddonInstance, grant: Grant, identity: Registration) -> None:
        """Make one grant exist as wanted; `NameConflict` when its name has another owner."""
        for resource, wanted in self._manifests(instance, grant, identity):
            await self.ensurer.ensure(resource, wanted, ours=is_made_for(instance.addon.key))

    def _manifests(self, instance: AddonInstance, grant: Grant, identity: Registration) -> Iterator[Manifest]:
        """Yield the role of a grant, unless it names an existing one, then the binding with its present subjects."""
        key = _name(instance, grant)
        metadata, kind = _metadata(instance, key), grant.role_kind if grant.role else "Role"
        if not grant.role:
            yield ROLES, ROLES.manifest(key, metadata=metadata, rules=list(grant.rules))
        binding = ROLE_BINDINGS.manifest(
            key,
            metadata=metadata,
            roleRef={"apiGroup": RBAC_GROUP, "kind": kind, "name": grant.role or key.name},
            subjects=self.subjects(instance, grant, identity),
        )
        yield ROLE_BINDINGS, binding

    async def remove(self, addon: ObjectKey, *, keep: set[ObjectKey]) -> None:
        for resource in (ROLE_BINDINGS, ROLES):
            for key in self.reader.index_keys(resource, INDEX, str(addon)):
                if key not in keep:
                    with contextlib.suppress(NotFound):  # the garbage collector was faster
                        await self.ensurer.remove(resource, key, ours=is_made_for(addon))


def bound_role(binding: Object) -> list[str]:
    """Return which role an add-on's binding gives, for the cache's index; nothing for bindings of others."""
    reference: Object = binding.get("roleRef") or {}
    namespace = binding["metadata"].get("namespace", "") if reference.get("kind") == "Role" else ""
    return [str(ObjectKey(namespace, str(reference.get("name"))))] if addon_from_labels(binding) else []


def addons_affected_by_role(reader: Cache, role: Object) -> list[ObjectKey]:
    """Map a role to the add-ons that have it, and to those that were refused their rights and may lack it.

    What was harmless when it was granted may be so no longer; a role that was missing may exist now.
    """
    found = reader.by_index(ROLE_BINDINGS, BY_ROLE, str(ObjectKey.of(role)))
    namespace = ObjectKey.of(role).namespace
    is_of_cluster = bool(namespace) and reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(namespace)) is not None
    refused = reader.by_index(MANAGED_CLUSTER_ADDONS, BY_REFUSAL, namespace if is_of_cluster else "")
    return [*(key for binding in found for key in addon_from_labels(binding)), *map(ObjectKey.of, refused)]


def namespaces_of_refused(addon: Object) -> list[str]:
    """Return where a role may change a refusal, for the cache's index: the add-on's namespace, and everywhere."""
    said = find_condition(addon, ConditionType.REGISTRATION_APPLIED)
    return [addon["metadata"]["namespace"], ""] if said is not None and said.reason == REFUSED else []


def addon_from_labels(obj: Object) -> list[ObjectKey]:
    labels = labels_of(obj)
    cluster, name = labels.get(Label.ADDON_CLUSTER), labels.get(Label.ADDON_NAME)
    return [ObjectKey(cluster, name)] if cluster and name else []


def wanted_keys(instance: AddonInstance, grants: Iterable[Grant]) -> set[ObjectKey]:
    return {_name(instance, grant) for grant in grants}


def _name(instance: AddonInstance, grant: Grant) -> ObjectKey:
    if not grant.namespace or grant.namespace == instance.cluster.name:
        return ObjectKey(instance.cluster.name, f"open-cluster-management:{instance.addon.name}:{grant.name}:agent")
    # In a namespace that clusters share, the name contains the cluster: otherwise they would overwrite each other.
    name = f"open-cluster-management:{instance.cluster.name}:{instance.addon.name}:{grant.name}:agent"
    return ObjectKey(grant.namespace, name)


def _metadata(instance: AddonInstance, key: ObjectKey) -> Object:
    labels = {Label.ADDON_NAME: instance.addon.name, Label.ADDON_CLUSTER: instance.cluster.name}
    if key.namespace != instance.cluster.name:
        return {"labels": labels}  # owners are in the same namespace; this one is removed by its mark
    return {"labels": labels, "ownerReferences": [owner_reference(instance.addon.object)]}


def is_made_for(addon: ObjectKey) -> Callable[[Object], bool]:
    """Return the test whether a role or binding was made for an add-on's agent.

    Every user who may edit an object can set labels. So its name must be ours, too, and in the cluster's own namespace
    the add-on must own it: a forged label makes us neither delete nor adopt another owner's object.
    """

    def test(obj: Object) -> bool:
        labels, key = labels_of(obj), ObjectKey.of(obj)
        marked = (labels.get(Label.ADDON_NAME), labels.get(Label.ADDON_CLUSTER)) == (addon.name, addon.namespace)
        in_cluster_namespace = key.namespace == addon.namespace
        whose = addon.name if in_cluster_namespace else f"{addon.namespace}:{addon.name}"
        named = key.name.startswith(f"open-cluster-management:{whose}:") and key.name.endswith(":agent")
        return marked and named and (not in_cluster_namespace or _is_owned(obj, addon.name))

    return test


def _is_owned(obj: Object, addon: str) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any((owner.get("kind"), owner.get("name")) == (MANAGED_CLUSTER_ADDONS.kind, addon) for owner in owners)


def validate_rules(rules: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what is dangerous about the rules, one sentence each; nothing for rules that an add-on may have."""
    return [objection for rule in rules for objection in _validate_rule(rule)]


def _validate_rule(rule: Mapping[str, Any]) -> Iterable[str]:
    verbs = {str(verb) for verb in rule.get("verbs") or ()}
    groups = {str(group) for group in rule.get("apiGroups") or ()}
    resources = {str(resource) for resource in rule.get("resources") or ()}
    if rule.get("nonResourceURLs"):
        yield "paths outside of resources are for administrators"
    if "*" in groups or any("*" in resource for resource in resources):
        yield "a wildcard includes resources that do not exist yet: name groups and resources"
    risky = verbs & ALWAYS_DANGEROUS_VERBS
    if risky:
        yield f"verbs that give an add-on another identity: {', '.join(sorted(risky))}"
    yield from _validate_resources(groups, resources, verbs, named=bool(rule.get("resourceNames")))


def _validate_resources(groups: set[str], resources: set[str], verbs: set[str], *, named: bool) -> Iterable[str]:
    writes = bool(verbs - READING)
    found = resources & DANGEROUS_RESOURCES
    if found and writes:
        yield f"resources that decide identities: {', '.join(sorted(found))}"
    written = {resource for group in groups for resource in DANGEROUS_TO_WRITE.get(group, set()) & resources}
    if written and writes:
        yield f"resources that act with the rights of others: {', '.join(sorted(written))}"
    connected = resources & CONNECTING
    if connected:
        yield f"connections into running programs: {', '.join(sorted(connected))}"
    if RBAC_GROUP in groups and writes:
        yield "rights that change rights"
    if "secrets" in resources and "" in groups and not named:
        yield "secrets without names: name those that are needed"


def validate_grant_namespace(namespace: str, *, own: str, clusters: Iterable[str], reserved: Iterable[str]) -> str:
    """Return why an add-on gets no rights in a namespace; empty when it may."""
    if namespace == own:
        return ""
    if namespace in set(clusters):
        return f"namespace {namespace} belongs to another cluster"
    if namespace in set(reserved):
        return f"namespace {namespace} belongs to the hub itself"
    return ""
