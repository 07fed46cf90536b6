"""What the catalog promises about every driver in it."""

from __future__ import annotations

import pytest

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.conditions import Condition
from watchword.credentials.driver import (
    CredentialStatus,
    DriverOption,
    OptionType,
    Side,
    settings_from_spec,
    settings_to_flags,
    settings_to_spec,
)
from watchword.registration.catalog import CATALOG
from watchword.registration.driver import AnnotatesCluster

VALUES = {OptionType.TEXT: "x", OptionType.NUMBER: "7200", OptionType.LIST: "a,b"}


def test_one_driver_is_the_default() -> None:
    unnamed = [driver.name for driver in CATALOG.drivers if not isinstance(driver, AnnotatesCluster)]

    assert unnamed == [CATALOG.default]
    assert ADDON_CATALOG.default == CATALOG.default


def test_names_aliases_flags_and_annotations_are_each_of_one_driver() -> None:
    names = [name for driver in CATALOG.drivers for name in (driver.name, *driver.aliases)]
    options = [*(option for driver in CATALOG.drivers for option in driver.options), *ADDON_CATALOG.options]
    flags = [(option.side, flag) for option in options for flag in (option.flag, *option.aliases)]
    annotated = [driver for driver in CATALOG.drivers if isinstance(driver, AnnotatesCluster)]
    annotations = [name for driver in annotated for name in driver.annotations]

    assert all(len(set(rows)) == len(rows) for rows in (names, flags, annotations))


@pytest.mark.parametrize(
    "known",
    [
        *(pytest.param(driver.options, id=f"clusters by {driver.name}") for driver in CATALOG.drivers),
        *(pytest.param(driver.options, id=f"add-ons by {driver.name}") for driver in ADDON_CATALOG.drivers),
    ],
)
def test_what_is_configured_survives_the_spec(known: tuple[DriverOption, ...]) -> None:
    for side in Side:
        options = [option for option in known if option.side is side and option.paths]
        settings = {option.flag: VALUES[option.type] for option in options}
        spec = settings_to_spec(options, settings)
        entry = spec.pop("registrationDrivers", {})

        assert settings_from_spec(options, spec, entry) == settings
        assert len(settings_to_flags(options, settings)) == sum(len(value.split(",")) for value in settings.values())


def test_failed_token_is_reported_in_both_spellings() -> None:
    status = CredentialStatus(False, "HubUnreachable", "the hub cannot be asked")

    assert ADDON_CATALOG.by_name["token"].credential.report([status]) == (
        Condition.false("AddonTokenRefreshed", "HubUnreachable", "the hub cannot be asked"),
        Condition.false("TokenRefreshed", "TokenCreationFailed", "the hub cannot be asked"),
    )


def test_failed_certificate_of_a_cluster_is_reported_as_ocm_does() -> None:
    status = CredentialStatus(False, "CSRDenied", "no")

    assert CATALOG.by_name["csr"].credential.report([status]) == (
        Condition.false("ClusterCertificateRotated", "ClientCertificateUpdateFailed", "no"),
    )
