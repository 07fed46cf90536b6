"""Installs an add-on on a cluster through works, runs its hooks before removal, and reports its health."""

from __future__ import annotations

from msgspec import Struct

from watchword.addons import works
from watchword.addons.definition import BY_FEEDBACK, AddonDefinition, AddonInstance, DefinitionLookup
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType, Finalizer
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.runtime.ensure import Ensurer, with_preconditions
from watchword.runtime.errors import NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader
from watchword.runtime.status import StatusChange, StatusWriter

INDEX = "addon-works"


class AddonDeploymentReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn; triggered by it, by its definition, and by its works."""

    reader: Reader
    client: Client
    ensurer: Ensurer
    status: StatusWriter
    definitions: DefinitionLookup

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Bring the works in line with the add-on's manifests; when it is deleted, run its hooks first."""
        found = self.reader.get(MANAGED_CLUSTER_ADDONS, key)
        cluster = self.reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(key.namespace))
        definition = self.definitions(found) if found is not None else None
        if found is None or definition is None or cluster is None:
            return Done()  # the works belong to the add-on and go with it
        instance = AddonInstance(Addon.read(found), Cluster.read(cluster))
        addon_manifests = works.separate_hooks(definition.manifests(instance))
        if instance.addon.deleting:
            await self._run_hooks(instance, addon_manifests)
        elif addon_manifests.installed or addon_manifests.hooks:
            await self._install(instance, addon_manifests, definition)
        return Done()

    async def _install(
        self, instance: AddonInstance, addon_manifests: works.AddonManifests, definition: AddonDefinition
    ) -> None:
        if definition.objection:
            refusal = Condition.false(ConditionType.MANIFEST_APPLIED, "ConfigurationNotFound", definition.objection)
            await self.status.set_condition(MANAGED_CLUSTER_ADDONS, instance.addon.object, refusal)
            return
        await self._set_hook_finalizer(instance, wanted=bool(addon_manifests.hooks))
        parts = works.split_manifests(addon_manifests.installed)
        names = [works.deploy_name(instance.addon.name, number) for number in range(len(parts))]
        try:
            made = [
                await self._write(instance, works.work_manifest(instance, name, part, definition.manifest_configs))
                for name, part in zip(names, parts, strict=True)
            ]
        except NameConflict as conflict:
            refusal = Condition.false(ConditionType.MANIFEST_APPLIED, "NameConflict", str(conflict))
            await self.status.set_condition(MANAGED_CLUSTER_ADDONS, instance.addon.object, refusal)
            return
        await self._remove_others(instance, set(names))
        said = [works.decide_applied_condition(made)]
        if definition.health == BY_FEEDBACK:
            said.append(works.decide_available_condition(made))
        await self.status.write(MANAGED_CLUSTER_ADDONS, instance.addon.object, StatusChange(conditions=tuple(said)))

    async def _write(self, instance: AddonInstance, wanted: Object) -> Object:
        present = self.reader.get(MANIFEST_WORKS, ObjectKey.of(wanted))
        ours = works.is_made_for(instance)
        if present is not None and ours(present):
            wanted = works.keep_install_namespace(wanted, present, instance.addon.namespace_on_cluster())
            if works.is_current(present, wanted):
                return present
        return await self.ensurer.ensure(MANIFEST_WORKS, wanted, ours=ours)

    async def _remove_others(self, instance: AddonInstance, kept: set[str]) -> None:
        for work in self.reader.by_index(MANIFEST_WORKS, INDEX, str(instance.addon.key)):
            if work["metadata"]["name"] not in kept:
                await self.ensurer.remove(MANIFEST_WORKS, ObjectKey.of(work), ours=works.is_made_for(instance))

    async def _set_hook_finalizer(self, instance: AddonInstance, *, wanted: bool) -> None:
        """Put the finalizer on before anything is installed, and off when there is no hook any more."""
        held = Finalizer.ADDON_PRE_DELETE in instance.addon.finalizers
        if wanted == held:
            return
        kept = [name for name in instance.addon.finalizers if name != Finalizer.ADDON_PRE_DELETE]
        finalizers = [*kept, Finalizer.ADDON_PRE_DELETE] if wanted else kept
        await self._set_finalizers(instance.addon, finalizers)

    async def _run_hooks(self, instance: AddonInstance, addon_manifests: works.AddonManifests) -> None:
        """Run the hooks; once they are done, let go."""
        if Finalizer.ADDON_PRE_DELETE not in instance.addon.finalizers:
            return
        if addon_manifests.hooks:
            name = works.hook_name(instance.addon.name)
            work = await self._write(instance, works.work_manifest(instance, name, addon_manifests.hooks))
            if not works.is_completed(work, addon_manifests.hooks):
                message = "waiting for the add-on's hooks to run to their end"
                waiting = Condition.false(ConditionType.HOOK_COMPLETED, "HookManifestIsNotCompleted", message)
                await self.status.set_condition(MANAGED_CLUSTER_ADDONS, instance.addon.object, waiting)
                return
        kept = [name for name in instance.addon.finalizers if name != Finalizer.ADDON_PRE_DELETE]
        await self._set_finalizers(instance.addon, kept)

    async def _set_finalizers(self, addon: Addon, finalizers: list[str]) -> None:
        patch = with_preconditions(addon.object, {"metadata": {"finalizers": finalizers or None}})
        await self.client.patch(MANAGED_CLUSTER_ADDONS, addon.key, patch)
