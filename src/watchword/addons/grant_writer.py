"""Writes an add-on's rights: validated first, bound to the rebuilt subject, removed when no longer declared."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from watchword.addons import grant_manifests
from watchword.addons.definition import AddonDefinition, AddonInstance, Grant
from watchword.addons.grant_validation import validate_grant_namespace, validate_rules
from watchword.api.addon import Registration
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACES
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTERS, RBAC_GROUP, ROLE_BINDINGS, ROLES
from watchword.drivers.catalog import Catalog
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.diff import choose_changes
from watchword.runtime.ensure import Ensurer
from watchword.runtime.reconcile import Reader

INDEX = "addon-rights"
BY_ROLE = "addon-rights-by-role"


class GrantWriter(Struct, frozen=True):
    """Keeps Roles and RoleBindings of add-ons' agents."""

    reader: Reader
    client: Client
    ensurer: Ensurer
    catalog: Catalog

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

    def is_written(self, instance: AddonInstance, grant: Grant, identity: Registration) -> bool:
        """Whether the cache shows a grant exactly as wanted, so that no request is needed."""
        rows = [(ROLE_BINDINGS, self._binding(instance, grant, identity))]
        if not grant.role:
            rows.append((ROLES, grant_manifests.role_manifest(instance, grant)))
        present = [(self.reader.get(resource, ObjectKey.of(obj)), obj) for resource, obj in rows]
        return all(found is not None and choose_changes(found, obj) is None for found, obj in present)

    async def write(self, instance: AddonInstance, grant: Grant, identity: Registration) -> None:
        """Make one grant exist as wanted; `NameConflict` when its name has another owner."""
        ours = grant_manifests.is_made_for(instance.addon.key)
        if not grant.role:
            await self.ensurer.ensure(ROLES, grant_manifests.role_manifest(instance, grant), ours=ours)
        await self.ensurer.ensure(ROLE_BINDINGS, self._binding(instance, grant, identity), ours=ours)

    def _binding(self, instance: AddonInstance, grant: Grant, identity: Registration) -> Object:
        driver = self.catalog.addons[identity.driver]
        subject = driver.rbac_subject(instance.cluster.name, instance.addon.name, identity.subject)
        if driver.subject_in_reused_name is not None and instance.cluster.name_used_before:
            # Credentials of the earlier cluster's add-on have the group, too.
            subject = {"kind": "User", "apiGroup": RBAC_GROUP, "name": identity.subject.user}
        return grant_manifests.binding_manifest(instance, grant, subject)

    async def remove(self, addon: ObjectKey, *, keep: set[ObjectKey]) -> None:
        """Take away what was granted once and is not granted any more."""
        for resource in (ROLE_BINDINGS, ROLES):
            for obj in self.reader.by_index(resource, INDEX, str(addon)):
                if ObjectKey.of(obj) not in keep:
                    with contextlib.suppress(NotFound):  # the garbage collector was faster
                        await self.ensurer.remove(resource, ObjectKey.of(obj), ours=grant_manifests.is_made_for(addon))


def bound_role(binding: Object) -> list[str]:
    """Return which role an add-on's binding gives, for the cache's index; nothing for bindings of others."""
    reference: Object = binding.get("roleRef") or {}
    namespace = binding["metadata"].get("namespace", "") if reference.get("kind") == "Role" else ""
    return [str(ObjectKey(namespace, str(reference.get("name"))))] if grant_manifests.addon_from_labels(binding) else []


def addons_affected_by_role(reader: Reader, role: Object) -> list[ObjectKey]:
    """Map a role to the add-ons that have it: what was harmless when it was granted may be so no longer."""
    found = reader.by_index(ROLE_BINDINGS, BY_ROLE, str(ObjectKey.of(role)))
    return [key for binding in found for key in grant_manifests.addon_from_labels(binding)]
