"""A process imports the side of a driver that it runs, and no other."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = "import sys, watchword.registration.catalog, watchword.addons.catalog; print(*sys.modules)"
SIDES = ("agent", "certificate_agent", "certificate_hub", "connector", "hub", "people")


def test_catalog_imports_neither_side_of_any_driver() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)

    drivers = [name for name in done.stdout.split() if name.startswith("watchword.registration.")]

    assert "watchword.registration.csr.driver" in drivers
    assert [name for name in drivers if name.rpartition(".")[2] in SIDES] == []
