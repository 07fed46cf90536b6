"""Declares, for every add-on, by which driver it gets its credential and who it will be."""

from __future__ import annotations

from dataclasses import dataclass, replace

from watchword.agent.addons.credential_kinds import CREDENTIAL_KINDS, addon_driver_name
from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, KUBE_CLIENT_DRIVERS, Addon, Registration
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.runtime.reconcile import Done, Outcome, Reader
from watchword.runtime.status import StatusChange, StatusWriter


@dataclass(frozen=True)
class AddonRegistrationReconciler:
    """Reconciles ManagedClusterAddOn on the hub. The add-on's hub controller writes the list, this fills it in."""

    hub: Reader
    status: StatusWriter
    addon_auth: str

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Write driver, subject and the end of what another driver reported, in one patch."""
        found = self.hub.get(MANAGED_CLUSTER_ADDONS, key)
        if found is None:
            return Done()
        addon = Addon.read(found)
        if addon.deleting or not addon.registrations:
            return Done()
        # The list has two writers: what was decided from an older version of it must not be written again.
        await self.status.write_if_unchanged(
            MANAGED_CLUSTER_ADDONS, found, choose_registration_status(addon, addon_auth=self.addon_auth)
        )
        return Done()


def choose_registration_status(addon: Addon, *, addon_auth: str) -> StatusChange:
    """Return what the agent has to say about an add-on's registrations."""
    completed = tuple(complete_registration(addon, row, addon_auth=addon_auth) for row in addon.registrations)
    return StatusChange(without=choose_obsolete_conditions(completed), fields=addon.registration_fields(completed))


def complete_registration(addon: Addon, registration: Registration, *, addon_auth: str) -> Registration:
    """Return the registration with driver and subject filled in."""
    driver = addon_driver_name(registration, addon_auth)
    subject = CREDENTIAL_KINDS[driver].subject(addon, registration)
    return replace(registration, subject=subject, driver=driver if registration.type == KUBE_CLIENT else "")


def choose_obsolete_conditions(completed: tuple[Registration, ...]) -> tuple[str, ...]:
    """Return the conditions about credentials that no registration asks for any more."""
    used = {row.driver for row in completed if row.driver}
    kept = {type_ for name in used for type_ in KUBE_CLIENT_DRIVERS[name].conditions}
    if any(row.type == CUSTOM_SIGNER for row in completed):
        kept.add(ConditionType.CERTIFICATE_ROTATED)
    known = [type_ for rule in KUBE_CLIENT_DRIVERS.values() for type_ in rule.conditions]
    return tuple(type_ for type_ in known if type_ not in kept)
