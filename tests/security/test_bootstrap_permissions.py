"""What a holder of a bootstrap token is refused on the hub."""

from __future__ import annotations

import pytest
from tests.helpers.fleet import FleetHarness, PlaneConnector

from watchword.api.meta import ObjectKey, labels_of
from watchword.api.names import Annotation, Label
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden


def joining(fleet: FleetHarness) -> Client:
    return Client(PlaneConnector(fleet.plane).joining())


@pytest.mark.parametrize("cluster_set", ["prod", "global"])
async def test_no_token_adds_a_cluster_to_a_cluster_set(fleet: FleetHarness, cluster_set: str) -> None:
    labels = {Label.CLUSTER_SET: cluster_set}
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(fleet.name()), metadata={"labels": labels}, spec={})

    with pytest.raises(Forbidden):
        await joining(fleet).create(MANAGED_CLUSTERS, manifest)


async def test_no_token_changes_the_key_on_record_for_a_name(fleet: FleetHarness) -> None:
    note = {Annotation.FIRST_KEY: f"agent {'0' * 64} 2026-01-01T00:00:00Z"}
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(fleet.name()), metadata={"annotations": note}, spec={})

    with pytest.raises(Forbidden):
        await joining(fleet).create(MANAGED_CLUSTERS, manifest)


@pytest.mark.parametrize("labels", [{}, {Label.CLUSTER_SET: "default"}], ids=["none named", "the default"])
async def test_cluster_comes_in_by_the_default_set(fleet: FleetHarness, labels: dict[str, str]) -> None:
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(fleet.name()), metadata={"labels": labels}, spec={})

    made = await joining(fleet).create(MANAGED_CLUSTERS, manifest)

    assert labels_of(made).get(Label.CLUSTER_SET, "default") == "default"
