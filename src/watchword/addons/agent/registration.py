"""Declares, for every add-on, its driver and its subject."""

from msgspec import Struct
from msgspec.structs import replace

from watchword.addons.catalog import AddonCatalog
from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, Addon, Registration
from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.runtime.reconcile import Done, Outcome, Reader
from watchword.runtime.status import StatusChange, StatusWriter


class AddonDrivers(Struct, frozen=True):
    """Which driver serves which registration of an add-on."""

    catalog: AddonCatalog
    auth: str  # the driver for the hub's API; empty: the default

    def name_for(self, registration: Registration) -> str:
        """Return the driver of a registration: the agent's flag decides for the hub's API."""
        if registration.type == CUSTOM_SIGNER:
            return self.catalog.certificates
        return self.catalog.find(self.auth).name


class AddonRegistrationReconciler(Struct, frozen=True):
    """Reconciles ManagedClusterAddOn on the hub. The add-on's hub controller writes the list, this fills it in."""

    hub: Reader
    status: StatusWriter
    drivers: AddonDrivers

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.hub.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            return Done()
        addon = Addon.read(found)
        if addon.deleting or not addon.registrations:
            return Done()
        # The list has two writers: what was decided from an older version of it must not be written again.
        await self.status.write_if_unchanged(
            MANAGED_CLUSTER_ADDONS, found, choose_registration_status(addon, self.drivers)
        )
        return Done()


def choose_registration_status(addon: Addon, drivers: AddonDrivers) -> StatusChange:
    completed = tuple(complete_registration(addon, row, drivers) for row in addon.registrations)
    return StatusChange(
        without=choose_obsolete_conditions(completed, drivers), fields=addon.registration_fields(completed)
    )


def complete_registration(addon: Addon, registration: Registration, drivers: AddonDrivers) -> Registration:
    driver = drivers.name_for(registration)
    subject = drivers.catalog.by_name[driver].subjects.choose(addon, registration)
    return replace(registration, subject=subject, driver=driver if registration.type == KUBE_CLIENT else "")


def choose_obsolete_conditions(completed: tuple[Registration, ...], drivers: AddonDrivers) -> tuple[str, ...]:
    used = {drivers.name_for(row) for row in completed}
    conditions = {name: row.credential.condition_types for name, row in drivers.catalog.by_name.items()}
    kept = {type_ for name in used for type_ in conditions[name]}
    return tuple(type_ for types in conditions.values() for type_ in types if type_ not in kept)
