"""An operator that may make namespaces makes them, and takes away those it made and no others."""

from __future__ import annotations

import asyncio
from random import Random

from tests.operator.test_klusterlet import says

from watchword.api.meta import ObjectKey
from watchword.api.resources import KLUSTERLETS, NAMESPACES
from watchword.operator.bundles import install_crds
from watchword.operator.process import OperatorOptions, run_operator
from watchword.testing.builders import a_namespace
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane


async def test_namespaces_that_the_operator_made_go_with_the_klusterlet(plane: Plane) -> None:
    await plane.controllers("garbage-collector-controller", "namespace-controller")
    client, stop, key = plane.client(), asyncio.Event(), ObjectKey.cluster(plane.unique("klusterlet"))
    place = f"open-cluster-management-{key.name}"
    await install_crds(client)
    await client.create(NAMESPACES, a_namespace(place))  # of another owner; only the one for add-ons is missing
    options = OperatorOptions(elect=False)

    async with asyncio.TaskGroup() as group:
        group.create_task(run_operator(client, options, clock=plane.clock, random=Random(1), stop=stop))
        await client.create(KLUSTERLETS, KLUSTERLETS.manifest(key, spec={"clusterName": "edge", "namespace": place}))
        await eventually(client, KLUSTERLETS, key, says("Applied", "True"))
        assert await client.find(NAMESPACES, ObjectKey.cluster(f"{place}-addon")) is not None

        await client.delete(KLUSTERLETS, key)
        await eventually(client, KLUSTERLETS, key, is_gone)
        await eventually(client, NAMESPACES, ObjectKey.cluster(f"{place}-addon"), is_gone)
        stop.set()

    assert await client.find(NAMESPACES, ObjectKey.cluster(place)) is not None
