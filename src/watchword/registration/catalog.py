"""Every driver there is: a new one is a folder and one line here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from msgspec import Struct

from watchword.addons.token import DRIVER as TOKEN
from watchword.api.addon import Addon
from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, annotations_of
from watchword.registration.aws_irsa.driver import DRIVER as AWS_IRSA
from watchword.registration.csr import DRIVER as CSR
from watchword.registration.descriptor import AddonRegistration, ClusterRegistration, Driver, HeldCredential
from watchword.registration.errors import AmbiguousDriver, CredentialUnreadable, UnknownDriver
from watchword.registration.grpc import DRIVER as GRPC
from watchword.registration.hub_connector import ConnectorContext, HubConnector
from watchword.registration.hub_server import HubServer
from watchword.registration.interface import SecretData
from watchword.registration.options import DriverOption, Settings, Side


class Catalog(Struct, frozen=True, dict=True):
    """The drivers that a process knows. Where no driver is named, the default one serves."""

    drivers: tuple[Driver, ...]

    @cached_property
    def clusters(self) -> Mapping[str, ClusterRegistration]:
        """The drivers by which clusters register."""
        return {driver.name: driver.cluster for driver in self.drivers if driver.cluster is not None}

    @cached_property
    def addons(self) -> Mapping[str, AddonRegistration]:
        """The drivers by which add-ons register."""
        return {driver.name: driver.addons for driver in self.drivers if driver.addons is not None}

    @cached_property
    def servers(self) -> tuple[HubServer, ...]:
        """The servers that drivers bring to a hub."""
        return tuple(registration.server for registration in self.clusters.values() if registration.server is not None)

    @cached_property
    def default(self) -> str:
        """The driver of clusters that no annotation recognises, and of add-ons that name none."""
        return next(name for name, registration in self.clusters.items() if not registration.annotations)

    @cached_property
    def certificates(self) -> str:
        """The driver that obtains certificates from signers of an add-on's own."""
        return next(name for name, registration in self.addons.items() if registration.by_certificate)

    def options(self, side: Side, driver: str = "") -> tuple[DriverOption, ...]:
        """Return what can be configured on one side, about one driver or all of them."""
        drivers = [each for each in self.drivers if driver in ("", each.name)]
        return tuple(option for each in drivers for option in each.options if option.side is side)

    def validate(self, side: Side, settings: Settings, *chosen: str) -> list[str]:
        """Return what is wrong with the settings of one side, one sentence each; `chosen` drivers need theirs."""
        objections = [option.validate(value) for option in self.options(side) if (value := option.read(settings))]
        objections += [
            f"{option.flag} is missing: the driver {name} requires it"
            for name in chosen
            for option in self.options(side, name)
            if option.required and not option.read(settings)
        ]
        found = [objection for objection in objections if objection]
        if side is Side.CLUSTER and not found:
            found += [objection for name in chosen if (objection := self._validate_together(name, settings))]
        return found

    def _validate_together(self, name: str, settings: Settings) -> str:
        registration = self.clusters.get(name)
        return registration.validate(settings) if registration is not None else ""

    def cluster_driver(self, name: str) -> str:
        """Return the name of the driver by which clusters register; `UnknownDriver` when there is none."""
        return self._find(name, self.clusters, "clusters register")

    def known_cluster_drivers(self, names: Iterable[str]) -> list[str]:
        """Return the drivers of these names by which clusters register; unknown ones are left out."""
        return [driver.name for name in names for driver in self.drivers if driver.cluster and driver.is_called(name)]

    def addon_driver(self, name: str) -> str:
        """Return the name of the driver by which add-ons register; `UnknownDriver` when there is none."""
        return self._find(name, self.addons, "add-ons register")

    def _find(self, name: str, known: Mapping[str, object], purpose: str) -> str:
        wanted = name or self.default
        found = next((driver.name for driver in self.drivers if driver.is_called(wanted)), "")
        if found not in known:
            names = ", ".join(sorted(known))
            raise UnknownDriver(f"there is no driver {wanted!r} by which {purpose}: choose one of {names}")
        return found

    def driver_of(self, cluster: Object) -> str:
        """Return by which driver a ManagedCluster registers; `AmbiguousDriver` when its annotations name several."""
        annotations = annotations_of(cluster)
        named = [name for name, registration in self.clusters.items() if registration.is_named_by(annotations)]
        if len(named) > 1:
            name = cluster["metadata"]["name"]
            raise AmbiguousDriver(
                f"the annotations of cluster {name} name the drivers {' and '.join(named)}: remove those of all but one"
            )
        return named[0] if named else self.default

    def find_hub_report(self, cluster: Object) -> Condition | None:
        """Return what the hub says of the identity that it makes for a ManagedCluster; None when it says nothing."""
        types = [each.hub_condition for each in self.clusters.values() if each.hub_condition]
        return next((found for type_ in types if (found := find_condition(cluster, type_)) is not None), None)

    def connector(self, name: str, context: ConnectorContext) -> HubConnector:
        """Return how a cluster reaches the hub by the driver of that name; `UnknownDriver` when there is none."""
        return self.clusters[self.cluster_driver(name)].connector(context)

    def read_held(self, data: SecretData) -> HeldCredential | None:
        """Return what a Secret holds for a cluster, None when it holds nothing; `CredentialUnreadable` otherwise."""
        found = (registration.read_held(data) for registration in self.clusters.values())
        return next((held for held in found if held is not None), None)

    def read_pending_key(self, data: SecretData) -> str:
        """Return the thumbprint of the key for which a cluster requests a credential; empty when there is none."""
        found = (registration.read_pending_key(data) for registration in self.clusters.values())
        return next((key for key in found if key), "")

    def holder_of(self, data: SecretData) -> str:
        """Return the driver whose credential a Secret holds, readable or not; empty when it holds none."""
        for name, registration in self.clusters.items():
            try:
                if registration.read_held(data) is not None:
                    return name
            except CredentialUnreadable:
                return name
        return ""

    def cluster_credential(self, cluster: Object) -> Condition | None:
        """Return what is reported about a cluster's own credential; None when nothing is, or its driver is unclear."""
        try:
            return self.clusters[self.driver_of(cluster)].credential.find_condition(cluster)
        except AmbiguousDriver:
            return None

    def addon_credential(self, addon: Addon) -> Condition | None:
        """Return what is reported about an add-on's credential for the hub; None when nothing is."""
        registration = self.addons.get(addon.driver or self.default)
        return None if registration is None else registration.credential.find_condition(addon.object)


CATALOG = Catalog((CSR, TOKEN, AWS_IRSA, GRPC))
