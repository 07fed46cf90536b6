"""The hub's side of the drivers that are enabled: which one serves a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.names import Annotation
from watchword.credentials.driver import HubContext
from watchword.credentials.errors import DriverError, UnknownDriver
from watchword.registration.catalog import Catalog
from watchword.registration.driver import (
    AutoAcceptsClusters,
    HasReconcilers,
    HasServer,
    HoldsRemoval,
    HubDriver,
    HubServer,
)
from watchword.runtime.reconcile import ControllerSpec, Trigger


class HubDrivers(Struct, frozen=True):
    """Finds the driver of a cluster by the annotations of its ManagedCluster, which are claims of its agent."""

    catalog: Catalog
    enabled: Mapping[str, HubDriver]

    @classmethod
    def make(cls, catalog: Catalog, names: Iterable[str], context: HubContext) -> HubDrivers:
        """Return the drivers of these names, the default one when there are none; raise `UnknownDriver`."""
        known = [catalog.find(name) for name in names] or [catalog.find("")]
        return cls(catalog, {driver.name: driver.hub(context) for driver in known})

    @property
    def servers(self) -> list[HubServer]:
        found = [self.catalog.by_name[name] for name in self.enabled]
        return [driver.server for driver in found if isinstance(driver, HasServer)]

    def of(self, cluster: Cluster) -> HubDriver:
        """Return the driver of a cluster; raise `DriverError` when it is ambiguous or not enabled on this hub."""
        return self.enabled[self.name_of(cluster)]

    def name_of(self, cluster: Cluster) -> str:
        """Return the name of the driver of a cluster: the one that it was accepted by, or else claims; see `of`."""
        noted = cluster.annotations.get(Annotation.ACCEPTED_DRIVER, "")
        name = noted or self.catalog.driver_of(cluster.object).name
        if name not in self.enabled:
            known = ", ".join(sorted(self.enabled))
            raise UnknownDriver(
                f"cluster {cluster.name} registers by the driver {name}, which this hub does not have enabled "
                f"(it has {known}): enable it with `watchword init --registration-auth {name}`"
            )
        return name

    def choose_note(self, cluster: Cluster) -> dict[str, str]:
        """Return the annotation that records the driver of a cluster at its acceptance; none when it is recorded."""
        is_noted = Annotation.ACCEPTED_DRIVER in cluster.annotations
        return {} if is_noted else {Annotation.ACCEPTED_DRIVER: self.name_of(cluster)}

    def find_changed_claim(self, cluster: Cluster) -> str:
        """Return why the annotations of an accepted cluster have no effect; empty when they say what was accepted."""
        noted = cluster.annotations.get(Annotation.ACCEPTED_DRIVER, "")
        try:
            claimed = self.catalog.driver_of(cluster.object).name
        except DriverError as objection:
            return str(objection) if noted else ""
        if noted in ("", claimed):
            return ""
        return (
            f"cluster {cluster.name} was accepted by the driver {noted} and claims {claimed} now, which has no effect: "
            "to change the driver, `watchword deny` and `watchword accept` the cluster again"
        )

    def remaining(self, cluster: Cluster) -> list[str]:
        return [left for driver in self._holding for left in driver.remaining(cluster)]

    @property
    def removal_triggers(self) -> tuple[Trigger, ...]:
        """What changes once something outside the hub is gone."""
        return tuple(driver.removal_trigger for driver in self._holding)

    @property
    def _holding(self) -> list[HoldsRemoval]:
        return [driver for driver in self.enabled.values() if isinstance(driver, HoldsRemoval)]

    async def revoke(self, cluster: Cluster) -> None:
        """Revoke a cluster with every driver: its agent may have changed the annotation that names its own."""
        for driver in self.enabled.values():
            await driver.revoke(cluster)

    def is_auto_accepted(self, cluster: Cluster) -> bool:
        """Whether the driver of a cluster accepts it without a person."""
        try:
            driver = self.of(cluster)
        except DriverError:
            return False
        return isinstance(driver, AutoAcceptsClusters) and driver.is_auto_accepted(cluster)

    def controllers(self) -> Iterable[ControllerSpec]:
        for driver in self.enabled.values():
            if isinstance(driver, HasReconcilers):
                yield from driver.controllers()
