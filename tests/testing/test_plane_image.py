"""What is copied into a control plane is what an installation makes there."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from tests.helpers.plane_image import install_once

from watchword.api.conditions import is_true
from watchword.api.crds import MANAGED_CRDS
from watchword.api.resources import APPLIED_MANIFEST_WORKS, CUSTOM_RESOURCE_DEFINITIONS
from watchword.runtime.manifests import establish_crds
from watchword.testing.embedded_backend import open_embedded
from watchword.testing.plane import Plane


async def test_copied_kinds_are_those_that_were_installed_and_are_served(tmp_path: Path) -> None:
    await compare_two_planes(tmp_path, listening=False)


@pytest.mark.real_time
async def test_kinds_that_are_copied_in_real_time_are_served(tmp_path: Path) -> None:
    await compare_two_planes(tmp_path, listening=True)


async def compare_two_planes(tmp_path: Path, *, listening: bool) -> None:
    found = []
    for number in range(2):
        (tmp_path / str(number)).mkdir()
        async with open_embedded(tmp_path / str(number), listening=listening) as backend:
            plane = Plane(backend, private=True)
            client = plane.client()
            await install_once(plane, "test", partial(establish_crds, client, MANAGED_CRDS, manager="test"))

            definitions = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
            found.append([(row["metadata"]["name"], row["metadata"]["uid"], row["spec"]) for row in definitions.items])
            assert all(is_true(row, "Established") for row in definitions.items)
            assert (await client.list(APPLIED_MANIFEST_WORKS)).items == []
            await plane.close()

    assert found[0] == found[1]
    assert len(found[0]) == len(MANAGED_CRDS)
