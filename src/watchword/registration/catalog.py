"""Every driver of clusters: a new one is a folder and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct

from watchword.api.cluster import Cluster
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, annotations_of
from watchword.api.names import Annotation
from watchword.credentials.driver import (
    DriverOption,
    HeldCredential,
    HubContext,
    SecretData,
    Settings,
    Side,
    validate_options,
)
from watchword.credentials.errors import AmbiguousDriver, CredentialUnreadable, DriverError, UnknownDriver
from watchword.registration.aws_irsa.driver import AwsIrsaDriver
from watchword.registration.csr.driver import CsrDriver
from watchword.registration.driver import (
    AnnotatesCluster,
    AutoAcceptsClusters,
    ClusterDriver,
    ConnectorContext,
    ConnectsToHub,
    HasReconcilers,
    HasServer,
    HoldsRemoval,
    HubConnector,
    HubDriver,
    HubServer,
    KnownByUser,
    KubeconfigConnector,
    ReadsHeldCredential,
    ReportsHubIdentity,
    RequestsCertificate,
    ValidatesSettings,
)
from watchword.registration.grpc.driver import GrpcDriver
from watchword.runtime.reconcile import ControllerSpec, Trigger


class Catalog(Struct, frozen=True, dict=True):
    """The drivers by which clusters register. Where no driver is named, the default one serves."""

    drivers: tuple[ClusterDriver, ...]

    @cached_property
    def by_name(self) -> Mapping[str, ClusterDriver]:
        return {driver.name: driver for driver in self.drivers}

    @cached_property
    def servers(self) -> tuple[HubServer, ...]:
        return tuple(driver.server for driver in self.drivers if isinstance(driver, HasServer))

    @cached_property
    def default(self) -> str:
        return next(driver.name for driver in self.drivers if not isinstance(driver, AnnotatesCluster))

    @cached_property
    def _annotations(self) -> Mapping[str, str]:
        """The driver that an annotation names; `isinstance` would be asked for every cluster otherwise."""
        named = [(driver.name, driver.annotations) for driver in self.drivers if isinstance(driver, AnnotatesCluster)]
        return {annotation: name for name, annotations in named for annotation in annotations}

    @property
    def driver_annotations(self) -> tuple[str, ...]:
        """The annotations by which a ManagedCluster claims a driver."""
        return tuple(self._annotations)

    def options(self, side: Side, driver: str = "") -> tuple[DriverOption, ...]:
        drivers = [each for each in self.drivers if driver in ("", each.name)]
        return tuple(option for each in drivers for option in each.options if option.side is side)

    def validate(self, side: Side, settings: Settings, *chosen: str) -> list[str]:
        """Return what is wrong with the settings of one side, one sentence each; `chosen` drivers need theirs."""
        found = validate_options(self.options(side), settings)
        found += [
            f"{option.flag} is missing: the driver {name} requires it"
            for name in chosen
            for option in self.options(side, name)
            if option.required and not option.read(settings)
        ]
        if side is Side.CLUSTER and not found:
            drivers = [self.by_name[name] for name in chosen if name in self.by_name]
            objections = [each.validate_settings(settings) for each in drivers if isinstance(each, ValidatesSettings)]
            found += [objection for objection in objections if objection]
        return found

    def find(self, name: str) -> ClusterDriver:
        """Return the driver of that name, the default one for an empty name; `UnknownDriver` when there is none."""
        found = self.known([name or self.default])
        if not found:
            known = ", ".join(sorted(self.by_name))
            raise UnknownDriver(f"there is no driver {name!r} by which clusters register: choose one of {known}")
        return found[0]

    def known(self, names: Iterable[str]) -> list[ClusterDriver]:
        """Return the drivers of these names; unknown names are left out."""
        return [driver for name in names for driver in self.drivers if name in (driver.name, *driver.aliases)]

    def driver_of(self, cluster: Object) -> ClusterDriver:
        """Return by which driver a ManagedCluster registers; `AmbiguousDriver` when its annotations name several."""
        annotations = annotations_of(cluster)
        named = list(dict.fromkeys(name for key, name in self._annotations.items() if annotations.get(key)))
        if len(named) > 1:
            name = cluster["metadata"]["name"]
            raise AmbiguousDriver(
                f"the annotations of cluster {name} name the drivers {' and '.join(named)}: remove those of all but one"
            )
        return self.by_name[named[0] if named else self.default]

    def accepted_driver(self, cluster: Object) -> ClusterDriver | None:
        """Return the driver that a ManagedCluster was accepted by, or else claims; None when that is unclear."""
        noted = annotations_of(cluster).get(Annotation.ACCEPTED_DRIVER, "")
        try:
            return self.by_name.get(noted) if noted else self.driver_of(cluster)
        except AmbiguousDriver:
            return None

    def is_certified(self, cluster: Object) -> bool:
        """Whether requests for certificates of a ManagedCluster may be approved: its driver is known and makes them."""
        return isinstance(self.accepted_driver(cluster), RequestsCertificate)

    def user_of(self, cluster: Object) -> str:
        """Return the user that the rights of a ManagedCluster are bound to; empty: to the group of its certificates."""
        driver = self.accepted_driver(cluster)
        if driver is None or not isinstance(driver, KnownByUser):
            return ""
        return driver.cluster_user(cluster["metadata"]["name"])

    def find_hub_report(self, cluster: Object) -> Condition | None:
        """Return what the hub says of the identity that it makes for a ManagedCluster; None when it says nothing."""
        types = [driver.hub_condition for driver in self.drivers if isinstance(driver, ReportsHubIdentity)]
        return next((found for type_ in types if (found := find_condition(cluster, type_)) is not None), None)

    def find_credential(self, cluster: Object) -> Condition | None:
        """Return what is reported about a cluster's own credential; None when nothing is, or its driver is unclear."""
        try:
            return self.driver_of(cluster).credential.find_condition(cluster)
        except AmbiguousDriver:
            return None

    def read_held(self, data: SecretData) -> HeldCredential | None:
        """Return what a Secret holds for a cluster, None when it holds nothing; `CredentialUnreadable` otherwise."""
        found = (driver.read_held(data) for driver in self.drivers if isinstance(driver, ReadsHeldCredential))
        return next((held for held in found if held is not None), None)

    def read_pending_key(self, data: SecretData) -> str:
        """Return the thumbprint of the key for which a cluster requests a credential; empty when there is none."""
        found = (driver.read_pending_key(data) for driver in self.drivers if isinstance(driver, RequestsCertificate))
        return next((key for key in found if key), "")

    def holder_of(self, data: SecretData) -> str:
        """Return the driver whose credential a Secret holds, readable or not; empty when it holds none."""
        for driver in self.drivers:
            try:
                if isinstance(driver, ReadsHeldCredential) and driver.read_held(data) is not None:
                    return driver.name
            except CredentialUnreadable:
                return driver.name
        return ""


def make_connector(driver: ClusterDriver, context: ConnectorContext) -> HubConnector:
    """Return how a cluster reaches the hub by a driver: with a kubeconfig, unless the driver has a way of its own."""
    return driver.connector(context) if isinstance(driver, ConnectsToHub) else KubeconfigConnector(context.bootstrap)


CATALOG = Catalog((CsrDriver(), AwsIrsaDriver(), GrpcDriver()))


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
        """What changes once something outside the hub is deleted."""
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
