"""Declares which credentials an add-on needs, and binds its rights to the subject that its agent must have."""

from msgspec import Struct
from msgspec.structs import replace

from watchword.addons.catalog import AddonCatalog
from watchword.addons.definition import AddonDefinition, AddonInstance
from watchword.addons.driver import AddonState, RequestsAddonCertificate, StepResult
from watchword.addons.hub import grants
from watchword.addons.hub.grants import INDEX, REFUSED, GrantWriter
from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, AddonSubject, Registration, requested_namespace
from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition, is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ADDON_NAMESPACE, NAME_CONFLICT, ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, ROLE_BINDINGS
from watchword.kube.errors import Conflict, Forbidden, KubeError
from watchword.runtime.errors import NameConflict
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Reader, Trigger
from watchword.runtime.status import StatusChange

APPLIED = ConditionType.REGISTRATION_APPLIED
NOT_ACCEPTED, PENDING = "ClusterNotAccepted", "PermissionConfigPending"
SET_FAILED = "SetPermissionFailed"


class RegistrationStep(Struct, frozen=True):
    """Lists the registrations of an add-on, and keeps the rights of its agent."""

    reader: Reader
    rights: GrantWriter
    events: EventRecorder
    catalog: AddonCatalog
    triggers: tuple[Trigger, ...]  # the rights made for it, the roles that they name, its subject, its cluster

    async def run(self, state: AddonState) -> StepResult:
        addon, cluster, definition = state.addon, state.cluster, state.definition
        if cluster is None:  # no subject for rights
            await self.remove(addon.key)
        if definition is None or cluster is None or (addon.deleting and cluster.accepted):
            return StepResult()  # an add-on that is being deleted keeps its rights until it is gone
        instance = AddonInstance(addon, cluster)
        rows = merge_registrations(definition, instance, self.catalog)
        condition = await self._grant(definition, instance, rows)
        fields = {
            **addon.registration_fields(rows),
            "namespace": definition.install_namespace or requested_namespace(addon.object) or ADDON_NAMESPACE,
            "healthCheck": {"mode": definition.health},
        }
        return StepResult(StatusChange(conditions=(condition,), fields=fields))

    async def remove(self, key: ObjectKey) -> None:
        await self.rights.remove(key, keep=set())

    async def _grant(
        self, definition: AddonDefinition, instance: AddonInstance, rows: tuple[Registration, ...]
    ) -> Condition:
        # The condition comes after the hub's notes on the cluster, which decide whom the rights are bound to.
        if not (instance.cluster.accepted and is_true(instance.cluster.object, ConditionType.HUB_ACCEPTED)):
            await self.rights.remove(instance.addon.key, keep=set())
            message = f"cluster {instance.cluster.name} is not accepted by this hub"
            return Condition.false(APPLIED, NOT_ACCEPTED, message)
        await self.rights.remove(instance.addon.key, keep=grants.wanted_keys(instance, definition.grants))
        identity = next((row for row in rows if row.type == KUBE_CLIENT), None)
        if identity is None:
            return Condition.true(APPLIED, "NilRegistration", "the add-on asks for no access to the hub")
        declared = instance.addon.kube_client
        if declared is not None and not is_own_subject(instance, declared, self.catalog):
            message = "the declared subject was not this add-on's, and was replaced"
            self.events.refusal(instance.addon.object, "SubjectMismatch", message)
        if not identity.driver or not identity.subject.user:
            return Condition.false(APPLIED, PENDING, "waiting for the agent to declare the add-on's subject")
        needed = self.catalog.by_name[identity.driver].subject_object
        if needed is not None and not needed.is_present(self.reader, instance.addon, identity.subject):
            kept = [grant for grant in definition.grants if self.rights.subjects(instance, grant, identity)]
            await self.rights.remove(instance.addon.key, keep=grants.wanted_keys(instance, kept))
            condition = await self._write(replace(definition, grants=tuple(kept)), instance, identity)
            message = f"waiting until the hub has made {identity.subject.user}, as {needed.condition} says"
            return Condition.false(APPLIED, PENDING, message) if condition.status == "True" else condition
        return await self._write(definition, instance, identity)

    async def _write(self, definition: AddonDefinition, instance: AddonInstance, identity: Registration) -> Condition:
        verdicts = [(grant, await self.rights.validate(definition, instance, grant)) for grant in definition.grants]
        objections = [text for _, texts in verdicts for text in texts]
        if objections:  # also to what was given before: the role may have grown, or the trust may be gone
            harmless = [grant for grant, texts in verdicts if not texts]
            await self.rights.remove(instance.addon.key, keep=grants.wanted_keys(instance, harmless))
            advice = "name fewer rights, or let the hub's administrator trust the grant by name"
            message = f"{'; '.join(objections)}: {advice}"
            self.events.refusal(instance.addon.object, REFUSED, message)
            return Condition.false(APPLIED, REFUSED, message)
        for grant in definition.grants:
            if self.rights.is_written(instance, grant, identity):
                continue
            try:
                await self.rights.write(instance, grant, identity)
            except Conflict:
                raise  # another writer was faster: the next look settles it
            except NameConflict as conflict:
                return Condition.false(APPLIED, NAME_CONFLICT, str(conflict))
            except Forbidden as error:
                message = f"{grant.name} cannot be granted: {grant.remedy} ({error})"
                return Condition.false(APPLIED, SET_FAILED, message)
            except KubeError as error:
                return Condition.false(APPLIED, SET_FAILED, str(error))
        return Condition.true(APPLIED, "SetPermissionApplied", "registrations and permissions are in place")


def addons_affected_by_cluster(reader: Reader, cluster: Object) -> list[ObjectKey]:
    """Return the add-ons for which a change of their cluster matters: it was accepted, or is no longer.

    Rights are counted, not read from conditions, which the agent may write.
    """
    name = cluster["metadata"]["name"]
    current = reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    addons = reader.list(MANAGED_CLUSTER_ADDONS, namespace=name)
    if current is None or not Cluster.read(current).accepted:
        return [key for key in map(ObjectKey.of, addons) if reader.by_index(ROLE_BINDINGS, INDEX, str(key))]
    said = [(ObjectKey.of(obj), find_condition(obj, APPLIED)) for obj in addons]
    return [key for key, row in said if row is not None and row.reason == NOT_ACCEPTED]


def merge_registrations(
    definition: AddonDefinition, instance: AddonInstance, catalog: AddonCatalog
) -> tuple[Registration, ...]:
    """Return the list as it should be: what the definition declares, with what the agent may add to it.

    Entries are matched by their signer, not by their place: two parties write the list.
    """
    present = {(row.type, row.signer): row for row in instance.addon.registrations}
    merged = []
    for wanted in definition.registrations(instance):
        found = present.get((wanted.type, wanted.signer))
        if found is None:
            subject = _initial_subject(instance, catalog) if wanted.type == KUBE_CLIENT else wanted.subject
            merged.append(replace(wanted, subject=subject))
        elif wanted.type == CUSTOM_SIGNER:
            signer = definition.signer(wanted.signer)
            right = signer.subject_for(instance) if signer is not None else AddonSubject()
            merged.append(replace(found, subject=right if found.subject.user else wanted.subject))
        else:
            merged.append(replace(found, subject=choose_subject(instance, found, catalog)))
    return tuple(merged)


def _initial_subject(instance: AddonInstance, catalog: AddonCatalog) -> AddonSubject:
    """Return the subject to request for a cluster that has the name of an earlier one; else an empty one."""
    cluster, addon = instance.cluster, instance.addon.name
    for driver in catalog.drivers if cluster.name_used_before else ():
        if isinstance(driver, RequestsAddonCertificate):
            return driver.subject_in_reused_name(cluster.name, addon, cluster.uid)
    return AddonSubject()


def is_own_subject(instance: AddonInstance, declared: Registration, catalog: AddonCatalog) -> bool:
    driver = catalog.by_name.get(declared.driver)
    if declared.subject == AddonSubject():
        return True
    if not declared.driver:
        return declared.subject == _initial_subject(instance, catalog)
    return driver is not None and driver.subjects.is_own(instance.cluster.name, instance.addon.name, declared.subject)


def choose_subject(instance: AddonInstance, declared: Registration, catalog: AddonCatalog) -> AddonSubject:
    """Return the declared subject when it is one this add-on can be, else the one it must be; empty until declared."""
    driver = catalog.by_name.get(declared.driver)
    if not declared.driver:
        return _initial_subject(instance, catalog)
    if driver is None or (driver.subject_object is not None and not declared.subject.user):
        return AddonSubject()
    if instance.cluster.name_used_before and isinstance(driver, RequestsAddonCertificate):
        return driver.subject_in_reused_name(instance.cluster.name, instance.addon.name, instance.cluster.uid)
    own = driver.subjects.is_own(instance.cluster.name, instance.addon.name, declared.subject)
    return declared.subject if own else driver.subjects.default(instance.cluster.name, instance.addon.name)
