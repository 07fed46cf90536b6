"""A hub is saved, removed with its kinds, and restored, on each control plane."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.conftest import Fleet

from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.testing.builders import a_cluster

if TYPE_CHECKING:
    from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(240)]

EDGE = ObjectKey.cluster("edge-1")


async def test_hub_that_was_removed_with_its_kinds_is_restored(
    private_plane: Plane, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fleet, file = Fleet(private_plane, tmp_path, capsys), str(tmp_path / "backup")
    await private_plane.controllers("namespace-controller")
    await fleet.init("--no-probe")
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(EDGE.name, accepted=True))
    await fleet.run("backup", file, "--hub", "--plain")

    await fleet.run("clean", "--force", "--delete-kinds", "--yes")
    assert "there is no hub on this cluster" in await fleet.run("clean", "--delete-kinds", "--yes")
    await fleet.run("restore", file, "--hub")

    assert (await fleet.client.get(MANAGED_CLUSTERS, EDGE))["spec"]["hubAcceptsClient"] is True
