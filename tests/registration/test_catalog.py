"""What the catalog promises about every driver in it."""

from __future__ import annotations

import pytest

from watchword.api.conditions import Condition
from watchword.registration.catalog import CATALOG
from watchword.registration.descriptor import CredentialStatus, Driver
from watchword.registration.options import OptionType, Side, settings_from_spec, settings_to_flags, settings_to_spec

VALUES = {OptionType.TEXT: "x", OptionType.NUMBER: "7200", OptionType.LIST: "a,b"}
OPTIONS = [pytest.param(option, id=option.flag) for side in Side for option in CATALOG.options(side)]


def test_one_driver_is_the_default() -> None:
    unnamed = [name for name, registration in CATALOG.clusters.items() if not registration.annotations]

    assert unnamed == [CATALOG.default]
    assert CATALOG.default in CATALOG.addons


def test_names_aliases_flags_and_annotations_are_each_of_one_driver() -> None:
    names = [name for driver in CATALOG.drivers for name in (driver.name, *driver.aliases)]
    options = [option for driver in CATALOG.drivers for option in driver.options]
    flags = [(option.side, flag) for option in options for flag in (option.flag, *option.aliases)]
    annotations = [name for registration in CATALOG.clusters.values() for name in registration.annotations]

    assert all(len(set(rows)) == len(rows) for rows in (names, flags, annotations))


@pytest.mark.parametrize("driver", [pytest.param(driver, id=driver.name) for driver in CATALOG.drivers])
def test_what_is_configured_survives_the_spec(driver: Driver) -> None:
    for side in Side:
        options = [option for option in CATALOG.options(side, driver.name) if option.paths]
        settings = {option.flag: VALUES[option.type] for option in options}
        spec = settings_to_spec(options, settings)
        entry = spec.pop("registrationDrivers", {})

        assert settings_from_spec(options, spec, entry) == settings
        assert len(settings_to_flags(options, settings)) == sum(len(value.split(",")) for value in settings.values())


def test_failed_token_is_reported_in_both_spellings() -> None:
    status = CredentialStatus(False, "HubUnreachable", "the hub cannot be asked")

    assert CATALOG.addons["token"].credential.report([status]) == (
        Condition.false("AddonTokenRefreshed", "HubUnreachable", "the hub cannot be asked"),
        Condition.false("TokenRefreshed", "TokenCreationFailed", "the hub cannot be asked"),
    )


def test_failed_certificate_of_a_cluster_is_reported_as_ocm_does() -> None:
    status = CredentialStatus(False, "CSRDenied", "no")

    assert CATALOG.clusters["csr"].credential.report([status]) == (
        Condition.false("ClusterCertificateRotated", "ClientCertificateUpdateFailed", "no"),
    )
