"""A process imports the side of a driver that it runs, and no other."""

from __future__ import annotations

from tests.helpers.fresh_imports import modules_after

SIDES = ("agent", "certificate_agent", "certificate_hub", "connector", "hub", "people")


def test_catalog_imports_neither_side_of_any_driver() -> None:
    imported = modules_after("watchword.registration.catalog", "watchword.addons.catalog")

    drivers = [name for name in imported if name.startswith("watchword.registration.")]

    assert "watchword.registration.csr.driver" in drivers
    assert [name for name in drivers if name.rpartition(".")[2] in SIDES] == []
