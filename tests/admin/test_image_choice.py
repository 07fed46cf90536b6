"""Which image `init` and `join` deploy when none is named, and how one gets an image."""

from __future__ import annotations

import json

import pytest

from watchword.admin.apply import apply_all
from watchword.admin.errors import OperationRefused
from watchword.admin.upgrade import Upgrader
from watchword.admin.workloads import FIELD_MANAGER, choose_image
from watchword.api.http import Request, Response
from watchword.api.names import IMAGE
from watchword.kube.client import Client
from watchword.operator.bundles import BundleOptions, operator_bundle
from watchword.runtime.clock import SystemClock
from watchword.testing.plane import Plane

VERSION = {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
NOT_FOUND = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}


async def answer_as_a_cluster_without_watchword(request: Request) -> Response:
    if request.path == "/version":
        return Response(200, body=json.dumps(VERSION).encode())
    return Response(404, body=json.dumps(NOT_FOUND).encode())


async def test_real_cluster_is_asked_for_an_image_that_exists() -> None:
    with pytest.raises(OperationRefused) as refused:
        await choose_image(Client.from_handler(answer_as_a_cluster_without_watchword))

    for word in ("make image", "skopeo copy", "--image", "WATCHWORD_IMAGE"):
        assert word in str(refused.value)


@pytest.mark.planes("embedded")
async def test_embedded_control_plane_runs_the_program_itself(plane: Plane) -> None:
    assert await choose_image(plane.client()) == IMAGE


@pytest.mark.planes("embedded")
async def test_image_of_the_operator_that_runs_is_kept(plane: Plane) -> None:
    await apply_all(plane.client(), operator_bundle(BundleOptions("registry.test/w:7")), manager=FIELD_MANAGER)

    assert await choose_image(plane.client()) == "registry.test/w:7"


async def test_upgrade_of_a_real_cluster_needs_an_image_that_exists() -> None:
    async def answer_as_a_managed_cluster(request: Request) -> Response:
        if request.path.endswith("/klusterlets"):
            items = [{"metadata": {"name": "klusterlet"}, "spec": {"imagePullSpec": "registry.test/w:7"}}]
            return Response(200, body=json.dumps({"kind": "KlusterletList", "metadata": {}, "items": items}).encode())
        return await answer_as_a_cluster_without_watchword(request)

    upgrader = Upgrader(Client.from_handler(answer_as_a_managed_cluster), SystemClock())

    with pytest.raises(OperationRefused, match="make image"):
        await upgrader.plan("")
    assert [step.wanted for step in await upgrader.plan("registry.test/w:8")] == ["registry.test/w:8"]
