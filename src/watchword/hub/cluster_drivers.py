"""The hub's side of the drivers that are enabled: which one serves a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from watchword.api.cluster import Cluster
from watchword.drivers.catalog import Catalog
from watchword.drivers.errors import DriverError, UnknownDriver
from watchword.drivers.interface import AutoAcceptsClusters, HasReconcilers, HubContext, HubDriver
from watchword.runtime.reconcile import ControllerSpec


@dataclass(frozen=True)
class HubDrivers:
    """Finds the driver of a cluster by the annotations of its ManagedCluster, which are claims of its agent."""

    catalog: Catalog
    enabled: Mapping[str, HubDriver]

    @classmethod
    def make(cls, catalog: Catalog, names: Iterable[str], context: HubContext) -> HubDrivers:
        """Return the drivers of these names, the default one when there are none; raise `UnknownDriver`."""
        known = [catalog.cluster_driver(name) for name in names] or [catalog.default]
        return cls(catalog, {name: catalog.clusters[name].hub(context) for name in known})

    def of(self, cluster: Cluster) -> HubDriver:
        """Return the driver of a cluster; raise `DriverError` when it is ambiguous or not enabled on this hub."""
        name = self.catalog.driver_of(cluster.object)
        if name not in self.enabled:
            known = ", ".join(sorted(self.enabled))
            raise UnknownDriver(
                f"cluster {cluster.name} registers by the driver {name}, which this hub does not have enabled "
                f"(it has {known}): enable it with `watchword init --registration-auth {name}`"
            )
        return self.enabled[name]

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
        """Return the controllers that the drivers bring."""
        for driver in self.enabled.values():
            if isinstance(driver, HasReconcilers):
                yield from driver.controllers()
