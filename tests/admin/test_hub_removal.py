"""The removal of a hub ends when everything is gone, and names what stays."""

from __future__ import annotations

import pytest

from watchword.admin.errors import NotReady
from watchword.admin.hub_removal import HubRemover
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CONFIG_MAPS, NAMESPACES
from watchword.testing.builders import a_config_map, a_namespace
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # minutes of virtual time, and a hub is one of a kind


async def test_namespace_that_a_finalizer_holds_is_named_with_what_to_do_next(plane: Plane) -> None:
    client = plane.client()
    await client.create(NAMESPACES, a_namespace(HUB_NAMESPACE))
    held = a_config_map("held", namespace=HUB_NAMESPACE)
    held["metadata"]["finalizers"] = ["example.com/archive"]
    await client.create(CONFIG_MAPS, held)
    remover = HubRemover(client)

    with pytest.raises(NotReady) as stays:
        await remover.carry_out(await remover.plan(force=False))

    assert str(stays.value) == (
        f"Namespace {HUB_NAMESPACE} is being removed, still after 2m0s: "
        f"see what holds it with `kubectl get namespaces {HUB_NAMESPACE} -o yaml`"
    )
