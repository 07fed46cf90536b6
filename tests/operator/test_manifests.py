"""API servers accept the output of `watchword manifests`, and its rights suffice to run a fleet."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from watchword.api.yaml import load_all
from watchword.cli.main import run
from watchword.operator.bundles import install_crds, operator_bundle
from watchword.operator.cluster_manager import hub_manifests
from watchword.operator.installation import read_installation
from watchword.operator.klusterlet import agent_manifests
from watchword.testing.plane import Plane

KLUSTERLET: Object = {
    "apiVersion": "operator.open-cluster-management.io/v1",
    "kind": "Klusterlet",
    "metadata": {"name": "klusterlet"},
    "spec": {"clusterName": "edge"},
}
MANAGER: Object = {
    "apiVersion": "operator.open-cluster-management.io/v1",
    "kind": "ClusterManager",
    "metadata": {"name": "cluster-manager"},
    "spec": {},
}


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(operator_bundle(), id="operator"),
        pytest.param(read_installation({}).hub_rows(), id="hub"),
        pytest.param(read_installation({}, {"cluster_name": "edge"}).agent_rows(), id="agent"),
        pytest.param(hub_manifests(MANAGER), id="what the operator applies for a hub"),
        pytest.param(agent_manifests(KLUSTERLET), id="what the operator applies for an agent"),
    ],
)
async def test_the_server_takes_every_object_as_it_stands(plane: Plane, rows: Sequence[Manifest]) -> None:
    client = plane.client()
    await install_crds(client)
    for resource, obj in rows:
        if resource is NAMESPACES:
            await client.apply(resource, obj, force=True)

    for resource, obj in rows:
        if resource is CUSTOM_RESOURCE_DEFINITIONS:
            continue  # installed above, so that the others can be validated
        await client.apply(resource, obj, manager="rehearsal", force=True, dry_run=True)


@pytest.mark.parametrize(
    ("argv", "last"),
    [
        pytest.param(["hub"], "ClusterManager", id="hub"),
        pytest.param(["agent", "--cluster-name=edge"], "Klusterlet", id="agent"),
        pytest.param(["operator", "--image=registry/watchword:1"], "Deployment", id="operator"),
    ],
)
def test_the_command_prints_what_kubectl_reads(argv: list[str], last: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", *argv]) == 0

    objects = load_all(capsys.readouterr().out)
    assert objects[-1]["kind"] == last
    assert objects[0]["kind"] == "CustomResourceDefinition"


COMPONENTS = {
    "operator": (["crds"], ["operator"], ["hub"], ["agent", "--cluster-name=edge"]),
    "dashboard": (["dashboard", "--join-tokens", "--pull-secrets"],),
    "accounts": (["managed-serviceaccount"], ["managed-serviceaccount", "--standalone"]),
    "pull secrets": (["pull-secrets"],),
    "registry": (["registry-auth", "--service=r", "--audience=r"], ["registry-auth-key"]),
}


def printed_by(component: str, capsys: pytest.CaptureFixture[str]) -> dict[tuple[str, ObjectKey], Object]:
    objects = []
    for argv in COMPONENTS[component]:
        assert run(["manifests", *argv]) == 0
        objects += load_all(capsys.readouterr().out)
    return {(obj["kind"], ObjectKey.of(obj)): obj for obj in objects}


@pytest.mark.parametrize("deleted", COMPONENTS)
def test_deleting_a_component_deletes_nothing_of_another(deleted: str, capsys: pytest.CaptureFixture[str]) -> None:
    gone = printed_by(deleted, capsys)
    kept = {key for other in COMPONENTS.keys() - {deleted} for key in printed_by(other, capsys)}

    assert not gone.keys() & kept
    if deleted != "operator":  # the dashboard and the manager of accounts run in namespaces of the hub
        assert not [key for key in kept if ("Namespace", ObjectKey.cluster(key[1].namespace)) in gone]


def test_an_impossible_cluster_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["manifests", "agent", "--cluster-name=Edge_1"]) == 2
    assert "DNS label" in capsys.readouterr().err
