"""What `kubectl get` shows of our kinds."""

from __future__ import annotations

from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS


def test_instants_to_come_are_no_ages() -> None:
    definitions = (*HUB_CRDS, *MANAGED_CRDS, *ACCOUNT_CRDS)
    versions = [version for definition in definitions for version in definition["spec"]["versions"]]
    columns = [column for version in versions for column in version.get("additionalPrinterColumns", ())]
    expiries = [column for column in columns if "expir" in column["jsonPath"].lower()]

    assert expiries
    assert {column["type"] for column in expiries} == {"string"}  # kubectl prints a date to come as <invalid>
