"""Every driver of add-ons: a new one is a folder and one line here."""

from collections.abc import Mapping
from functools import cached_property

from msgspec import Struct

from watchword.addons.certificate.driver import CertificateAddonDriver
from watchword.addons.driver import AddonDriver, RequestsAddonCertificate, SubjectObject
from watchword.addons.token.driver import TokenAddonDriver
from watchword.api.addon import Addon
from watchword.api.conditions import Condition
from watchword.credentials.driver import DriverOption
from watchword.credentials.errors import UnknownDriver


class AddonCatalog(Struct, frozen=True, dict=True):
    """The drivers by which add-ons register. Where no driver is named, the first one serves."""

    drivers: tuple[AddonDriver, ...]

    @cached_property
    def by_name(self) -> Mapping[str, AddonDriver]:
        return {driver.name: driver for driver in self.drivers}

    @cached_property
    def default(self) -> str:
        return self.drivers[0].name

    @cached_property
    def certificates(self) -> str:
        return next(driver.name for driver in self.drivers if isinstance(driver, RequestsAddonCertificate))

    @cached_property
    def options(self) -> tuple[DriverOption, ...]:
        return tuple(option for driver in self.drivers for option in driver.options)

    @cached_property
    def subject_objects(self) -> tuple[SubjectObject, ...]:
        return tuple(driver.subject_object for driver in self.drivers if driver.subject_object is not None)

    def find(self, name: str) -> AddonDriver:
        """Return the driver of that name, the default one for an empty name; `UnknownDriver` when there is none."""
        found = self.by_name.get(name or self.default)
        if found is None:
            known = ", ".join(sorted(self.by_name))
            raise UnknownDriver(f"there is no driver {name!r} by which add-ons register: choose one of {known}")
        return found

    def driver_of(self, addon: Addon) -> AddonDriver | None:
        """Return by which driver an add-on registers; None when it names an unknown one."""
        return self.by_name.get(addon.driver or self.default)

    def find_credential(self, addon: Addon) -> Condition | None:
        """Return what is reported about an add-on's credential for the hub; None when nothing is."""
        driver = self.driver_of(addon)
        return None if driver is None else driver.credential.find_condition(addon.object)


ADDON_CATALOG = AddonCatalog((CertificateAddonDriver(), TokenAddonDriver()))
