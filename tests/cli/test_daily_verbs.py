"""Cluster sets, works, versions, the inspection and the rotation of credentials, and upgrades, by commands."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.helpers.credential_fleet import DAY, HOUR, CredentialFleet, an_unsigned_token

from watchword import __version__
from watchword.api.meta import ObjectKey, labels_of
from watchword.api.names import HUB_KUBECONFIG_SECRET, Label
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.time import rfc3339
from watchword.cli._exit_codes import ExitCode
from watchword.cli.version import version_of_image
from watchword.credentials.credential_secret import decode_data
from watchword.pki.certificates import parse_certificate
from watchword.testing.builders import a_cluster, a_secret

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet, Member

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
MANIFEST = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: default}
data: {color: blue}
"""


async def a_hub(fleet: Fleet) -> str:
    """Make a hub and one cluster with its namespace."""
    await fleet.init("--no-probe")
    name = fleet.unique("edge")
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name))
    await fleet.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name)))
    return name


async def test_a_set_is_created_filled_bound_emptied_and_deleted(cli_fleet: Fleet) -> None:
    cluster, name = await a_hub(cli_fleet), cli_fleet.unique("set")
    place = cluster  # any namespace

    assert await cli_fleet.run("clusterset", "create", name) == f"cluster set {name} created\n"
    assert "exists already" in await cli_fleet.run("clusterset", "create", name)
    assert "(dry run)" in await cli_fleet.run("clusterset", "add", name, cluster, "--dry-run")
    assert labels_of(await cluster_object(cli_fleet, cluster)).get(Label.CLUSTER_SET) != name
    await cli_fleet.run("clusterset", "add", name, cluster)
    assert labels_of(await cluster_object(cli_fleet, cluster))[Label.CLUSTER_SET] == name
    await cli_fleet.run("clusterset", "bind", name, "-n", place)
    binding = await cli_fleet.client.get(MANAGED_CLUSTER_SET_BINDINGS, ObjectKey(place, name))
    assert binding["spec"] == {"clusterSet": name}
    (row,) = [line.split() for line in (await cli_fleet.run("clusterset", "list")).splitlines() if name in line]
    assert row[:3] == [name, "1", place]

    assert "has clusters" in await cli_fleet.run("clusterset", "delete", name, code=ExitCode.REFUSED)
    await cli_fleet.run("clusterset", "unbind", name, "-n", place)
    await cli_fleet.run("clusterset", "remove", name, cluster)
    assert "is not in" in await cli_fleet.run("clusterset", "remove", name, cluster, code=ExitCode.NOT_FOUND)
    refusal = await cli_fleet.run("clusterset", "remove", "default", cluster, code=ExitCode.REFUSED)
    assert "every cluster is in a set" in refusal
    await cli_fleet.run("clusterset", "delete", name)
    assert await cli_fleet.client.find(MANAGED_CLUSTER_SETS, ObjectKey.cluster(name)) is None
    for argv in (["add", name, cluster], ["bind", name, "-n", place]):
        assert "there is no cluster set" in await cli_fleet.run("clusterset", *argv, code=ExitCode.NOT_FOUND)


async def test_set_that_selects_by_labels_is_not_emptied_by_remove(cli_fleet: Fleet) -> None:
    cluster, name = await a_hub(cli_fleet), cli_fleet.unique("set")
    selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"set": name}}}
    await cli_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), {"metadata": {"labels": {"set": name}}})
    wanted = MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(name), spec={"clusterSelector": selector})
    await cli_fleet.client.create(MANAGED_CLUSTER_SETS, wanted)

    refused = await cli_fleet.run("clusterset", "delete", name, code=ExitCode.REFUSED)

    assert "it selects them by labels" in refused


async def test_lifetime_of_an_account_is_checked_before_anything_is_sent(cli_fleet: Fleet) -> None:
    wrong = ["serviceaccount", "create", "ci", "-n", "team", "--validity", "banana"]

    assert "--validity" in await cli_fleet.run(*wrong, code=ExitCode.NOT_USABLE)


async def cluster_object(fleet: Fleet, name: str) -> dict[str, object]:
    return await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))


async def test_a_work_is_created_listed_shown_changed_and_deleted(cli_fleet: Fleet) -> None:
    cluster, file = await a_hub(cli_fleet), cli_fleet.folder / "manifests.yaml"
    file.write_text(MANIFEST)
    create = ("work", "create", "config", "-f", str(file), "--cluster", cluster)
    key = ObjectKey(cluster, "config")

    await cli_fleet.run(*create, "--dry-run")
    assert await cli_fleet.client.find(MANIFEST_WORKS, key) is None
    assert await cli_fleet.run(*create) == f"work config created on {cluster}\n"
    assert "--overwrite" in await cli_fleet.run(*create, code=ExitCode.REFUSED)
    file.write_text(MANIFEST.replace("blue", "red"))
    assert "changed" in await cli_fleet.run(*create, "--overwrite")
    stored = await cli_fleet.client.get(MANIFEST_WORKS, key)
    assert stored["spec"]["workload"]["manifests"][0]["data"] == {"color": "red"}
    listed = await cli_fleet.run("work", "list", "--cluster", cluster, "-o", "name")
    assert listed == "manifestwork.work.open-cluster-management.io/config\n"
    assert f"Cluster:    {cluster}" in await cli_fleet.run("work", "show", "config", "--cluster", cluster)
    await cli_fleet.run("work", "delete", "config", "--cluster", cluster)
    assert await cli_fleet.client.find(MANIFEST_WORKS, key) is None
    missing = await cli_fleet.run("work", "show", "config", "--cluster", cluster, code=ExitCode.NOT_FOUND)
    assert f"there is no work config on cluster {cluster}" in missing


@pytest.mark.parametrize("content", ["just: text\n", "{apiVersion: v1, kind: List, items: 5}", "[1, 2]", "word"])
async def test_a_file_that_holds_no_manifest_is_refused(cli_fleet: Fleet, content: str) -> None:
    file = cli_fleet.folder / "notes.yaml"
    file.write_text(content)

    said = await cli_fleet.run("work", "create", "x", "-f", str(file), "--cluster", "edge", code=ExitCode.NOT_USABLE)

    assert "a manifest needs apiVersion, kind and metadata.name" in said


async def test_a_joined_cluster_reports_its_agent_and_its_credential_is_inspected_and_renewed(member: Member) -> None:
    fleet = member.fleet
    await member.asks()
    await fleet.run("accept", member.name)
    await member.joined()
    await member.has_credential()
    secret = f"{member.namespace}/{HUB_KUBECONFIG_SECRET}"
    certificate = parse_certificate((await held(member))["tls.crt"])

    facts = json.loads(await fleet.run("inspect", "secret", secret, "-o", "json"))
    assert (facts["subject"], facts["issuer"]) == (certificate.common_name, certificate.issuer)
    assert facts["stored"] == f"Secret {secret}"
    assert "PRIVATE KEY" not in json.dumps(facts)
    shown = await fleet.run("inspect", "cluster", member.name)
    assert f"agent of {member.name}" in shown
    assert certificate.common_name in shown
    await fleet.run("inspect", "cluster", "nowhere", code=ExitCode.NOT_FOUND)

    assert f"cluster {member.name}: would" in await fleet.run("rotate", "--all", "--kind", "cluster", "--dry-run")
    await fleet.run("rotate", "cluster", member.name, "--no-wait")
    assert "give" not in await fleet.run("rotate", "-l", "nothing=here", code=ExitCode.NOT_FOUND)


async def test_the_credential_of_an_addon_is_inspected(cli_fleet: Fleet) -> None:
    shown = await a_credential_fleet(cli_fleet)
    await shown.addon("edge", "sample")

    facts = json.loads(await cli_fleet.run("inspect", "addon", "edge/sample", "-o", "json"))

    assert facts["subject"] == "system:serviceaccount:edge:sample-agent"
    assert (facts["kind"], facts["health"]) == ("add-on token", "Good")
    assert facts["expires"] == rfc3339(shown.now + 7 * HOUR)
    assert facts["stored"] == "Secret sample-hub-kubeconfig in open-cluster-management-agent-addon on edge"
    assert "there is no" in await cli_fleet.run("inspect", "addon", "edge/other", code=ExitCode.NOT_FOUND)
    assert "CLUSTER/NAME" in await cli_fleet.run("inspect", "addon", "sample", code=ExitCode.NOT_USABLE)


async def test_the_token_of_an_account_is_inspected_and_not_printed(cli_fleet: Fleet) -> None:
    shown = await a_credential_fleet(cli_fleet)
    await shown.account("edge")
    without = await cli_fleet.run("inspect", "serviceaccount", "edge/robot", code=ExitCode.NOT_FOUND)
    token = an_unsigned_token("agents", "robot", shown.now, shown.now + DAY)
    data = {"token": token.encode(), "ca.crt": b""}
    await cli_fleet.client.create(SECRETS, a_secret("robot", namespace="edge", data=data))

    text = await cli_fleet.run("inspect", "serviceaccount", "edge/robot")
    facts = json.loads(await cli_fleet.run("inspect", "serviceaccount", "edge/robot", "-o", "json"))

    assert "watchword serviceaccount show robot -n edge" in without
    assert (facts["subject"], facts["stored"]) == ("system:serviceaccount:agents:robot", "Secret edge/robot")
    assert facts["expires"] == rfc3339(shown.now + DAY)
    assert facts["nextRenewal"] == rfc3339(shown.now + 17 * HOUR)
    assert token not in text
    assert token not in json.dumps(facts)


async def a_credential_fleet(cli_fleet: Fleet) -> CredentialFleet:
    fleet = CredentialFleet(cli_fleet.client, datetime.now(UTC))
    await fleet.install()
    await fleet.cluster("edge")
    return fleet


@pytest.mark.parametrize("misplaced", [("--dry-run",), ("--context", "other"), ("--all",)], ids=" ".join)
async def test_a_flag_that_a_kind_would_not_see_is_refused(cli_fleet: Fleet, misplaced: tuple[str, ...]) -> None:
    said = await cli_fleet.run("rotate", *misplaced, "cluster", "edge-1", code=ExitCode.NOT_USABLE)

    assert f"give {misplaced[0]} after `rotate cluster`" in said


async def held(member: Member) -> dict[str, bytes]:
    return decode_data(await member.fleet.client.get(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET)))


async def test_version_names_client_server_and_hub(cli_fleet: Fleet) -> None:
    assert f"Client:  {__version__}" in await cli_fleet.run("version", "--client")
    assert "this cluster is not a hub" in await cli_fleet.run("version")
    await cli_fleet.init("--no-probe")

    document = json.loads(await cli_fleet.run("version", "-o", "json"))

    assert document["hub"]["version"] == __version__
    assert document["server"]["kubernetes"].startswith("v1.")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        pytest.param("localhost:5000/watchword:0.2.0", "0.2.0", id="with the port of a registry"),
        pytest.param("watchword@sha256:abc", "-", id="a digest"),
        pytest.param("", "-", id="none"),
    ],
)
def test_version_of_image(image: str, version: str) -> None:
    assert version_of_image(image) == version


async def test_an_upgrade_is_planned_and_needs_a_yes(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    new = ("upgrade", "--image", "registry.example.com/watchword:9.9.9")

    planned = await cli_fleet.run(*new, "--dry-run")
    assert [row.split()[-1] for row in planned.splitlines()] == ["STATE", "outdated"]
    assert "give --yes" in await cli_fleet.run(*new, code=ExitCode.NOT_USABLE)
    manager = await cli_fleet.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
    assert manager["spec"]["imagePullSpec"].endswith(f":{__version__}")
    assert "current" in await cli_fleet.run("upgrade")


async def test_file_without_manifests_is_named(cli_fleet: Fleet, tmp_path: Path) -> None:
    damaged = tmp_path / "works.yaml"
    damaged.write_text("a: [")

    refused = await cli_fleet.run("work", "create", "w", "-c", "edge", "-f", str(damaged), code=ExitCode.NOT_USABLE)

    assert str(damaged) in refused
