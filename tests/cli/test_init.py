"""`init` on a control plane: what is there afterwards, and what is shown of the token."""

from __future__ import annotations

import json
import stat
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from watchword.admin.init import SignerProbe, validate_probe_result
from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.crds.operator import CLUSTER_MANAGER
from watchword.api.meta import ObjectKey
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGERS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    MANAGED_CLUSTERS,
    SECRETS,
)
from watchword.discovery.cluster_info import read_cluster_info

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def revisions(cli_fleet: Fleet) -> set[tuple[str, str]]:
    """Return what would change if a second run wrote anything."""
    config = await cli_fleet.client.get(CONFIG_MAPS, CLUSTER_INFO)
    manager = await cli_fleet.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
    tokens = await cli_fleet.client.list(SECRETS, namespace="kube-system", fields="type=bootstrap.kubernetes.io/token")
    return {(obj["metadata"]["name"], obj["metadata"]["resourceVersion"]) for obj in (config, manager, *tokens.items)}


async def test_init_makes_a_hub_and_a_second_run_changes_nothing(cli_fleet: Fleet) -> None:
    first = await cli_fleet.init("--no-probe")
    before = await revisions(cli_fleet)
    second = await cli_fleet.init("--no-probe")
    assert first == second
    assert await revisions(cli_fleet) == before
    assert (await cli_fleet.client.list(MANAGED_CLUSTERS)).items is not None


@pytest.mark.planes("embedded")  # where a kind can belong to another system for one test
async def test_the_cluster_manager_of_another_system_is_left_alone(cli_fleet: Fleet) -> None:
    theirs = {**CLUSTER_MANAGER, "metadata": {"name": CLUSTER_MANAGER["metadata"]["name"]}}
    before = await cli_fleet.client.create(CUSTOM_RESOURCE_DEFINITIONS, theirs)

    refusal = await cli_fleet.run("init", "--no-probe", code=4)
    await cli_fleet.run("init", "--no-deploy", "--no-probe")

    assert "another system's operator" in refusal
    assert (await cli_fleet.client.list(CLUSTER_MANAGERS)).items == []
    after = await cli_fleet.client.get(CUSTOM_RESOURCE_DEFINITIONS, ObjectKey.of(theirs))
    assert after["spec"] == before["spec"]


async def test_the_token_is_written_to_a_private_file_and_not_into_a_pipe(cli_fleet: Fleet) -> None:
    arguments = await cli_fleet.init("--no-probe")
    token = arguments[arguments.index("--token") + 1]
    shown = await cli_fleet.run("init", "--no-deploy", "--no-probe")
    document = json.loads(await cli_fleet.run("init", "--no-deploy", "--no-probe", "-o", "json"))
    asked = json.loads(await cli_fleet.run("init", "--no-deploy", "--no-probe", "-o", "json", "--show-token"))
    assert stat.S_IMODE((cli_fleet.folder / "join-command").stat().st_mode) == 0o600
    assert token not in shown
    assert token[7:] not in json.dumps(document)
    assert (document["token-id"], asked["hub-token"]) == (token[:6], token)
    assert asked["hub-apiserver"] == cli_fleet.plane.server


@pytest.mark.planes("embedded")  # a shared hub must not publish an address that is gone
async def test_a_hub_that_moved_publishes_its_new_address_by_a_plain_init(cli_fleet: Fleet) -> None:
    gone, here = "https://127.0.0.1:1", cli_fleet.plane.server
    await cli_fleet.run("init", "--no-deploy", "--no-probe", "--hub-apiserver", gone)

    document = json.loads(await cli_fleet.run("init", "--no-deploy", "--no-probe", "-o", "json"))

    published = read_cluster_info((await cli_fleet.client.get(CONFIG_MAPS, CLUSTER_INFO))["data"]["kubeconfig"])
    assert published.endpoints == (here, gone)
    assert document["hub-apiserver"] == here
    assert any(f"{gone} was published and does not answer" in warning for warning in document["warnings"])


@pytest.mark.planes("embedded")  # as above
async def test_an_address_that_was_named_stays_published_while_it_answers(cli_fleet: Fleet) -> None:
    named = cli_fleet.plane.server.replace("127.0.0.1", "localhost")
    await cli_fleet.run("init", "--no-deploy", "--no-probe", "--hub-apiserver", named)

    document = json.loads(await cli_fleet.run("init", "--no-deploy", "--no-probe", "-o", "json"))

    assert document["hub-apiserver"] == named


async def test_an_empty_token_makes_none(cli_fleet: Fleet) -> None:
    document = json.loads(await cli_fleet.run("init", "--no-deploy", "--no-probe", "--token", "", "-o", "json"))
    assert "token-id" not in document


async def test_a_given_token_is_taken_once_and_found_again(cli_fleet: Fleet) -> None:
    own = "x7k2m9.q8w3e5r1t0y6u4i2"
    path = cli_fleet.folder / "token"
    path.write_text(own)
    flags = ["--no-deploy", "--no-probe", "--token", f"@{path}", "--token-ttl", "0"]
    for _ in range(2):
        document = json.loads(await cli_fleet.run("init", *flags, "-o", "json"))
        assert document["token-id"] == own[:6]
    path.write_text("x7k2m9.aaaabbbbccccdd12")
    said = await cli_fleet.run("init", *flags, code=2)
    assert "a token with id x7k2m9 exists" in said
    await cli_fleet.run("token", "delete", own[:6])


async def test_probe_detects_that_certificates_are_issued_and_leaves_nothing(cli_fleet: Fleet) -> None:
    document = json.loads(await cli_fleet.run("init", "--no-deploy", "-o", "json"))
    requests = (await cli_fleet.client.list(CERTIFICATE_SIGNING_REQUESTS)).items
    assert not [warning for warning in document["warnings"] if "certificate" in warning]
    assert not [csr for csr in requests if csr["metadata"]["name"].startswith("watchword-probe-")]


async def test_a_dry_run_leaves_no_trace(cli_fleet: Fleet) -> None:
    document = json.loads(await cli_fleet.run("init", "--dry-run", "-o", "json"))
    assert "clustermanager/cluster-manager" in document["applied"]
    assert len(set(document["applied"])) == len(document["applied"])
    if cli_fleet.plane.name == "embedded":  # the other one is shared, and may be a hub already
        assert await cli_fleet.client.find(CONFIG_MAPS, CLUSTER_INFO) is None


async def test_the_operator_is_deployed_unless_controllers_run_elsewhere(cli_fleet: Fleet) -> None:
    document = json.loads(await cli_fleet.run("init", "--no-probe", "--image", "registry.test/ww:1", "-o", "json"))
    key = ObjectKey("open-cluster-management", "watchword-operator")
    container = (await cli_fleet.client.get(DEPLOYMENTS, key))["spec"]["template"]["spec"]["containers"][0]
    manager = await cli_fleet.client.get(CLUSTER_MANAGERS, ObjectKey.cluster("cluster-manager"))
    assert f"deployment/{key}" in document["applied"]
    assert (container["image"], container["args"][0]) == ("registry.test/ww:1", "operator")
    assert manager["spec"]["imagePullSpec"] == "registry.test/ww:1"


async def test_with_wait_init_returns_once_the_token_can_be_used(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    cli_fleet.start_hub()
    await cli_fleet.init("--no-probe", "--wait")
    arguments = await cli_fleet.init("--no-probe")
    config = await cli_fleet.client.get(CONFIG_MAPS, CLUSTER_INFO)
    assert f"jws-kubeconfig-{arguments[arguments.index('--token') + 1][:6]}" in config["data"]


async def test_without_controllers_waiting_ends_with_a_question(cli_fleet: Fleet) -> None:
    said = await cli_fleet.run(
        "init", "--no-deploy", "--no-probe", "--token-ttl", "1h", "--wait", "--timeout", "1s", code=3
    )
    assert "not signed for token" in said
    assert "is `watchword hub` running" in said


async def test_missing_signer_is_detected(cli_fleet: Fleet) -> None:
    probe = SignerProbe(cli_fleet.client, cli_fleet.plane.clock, "example.com/nobody", patience=timedelta(seconds=1))
    problem = await probe.run()
    requests = (await cli_fleet.client.list(CERTIFICATE_SIGNING_REQUESTS)).items
    assert "does not sign for example.com/nobody" in problem
    assert not [csr for csr in requests if csr["metadata"]["name"].startswith("watchword-probe-")]


def test_a_signer_that_fails_is_named() -> None:
    failed = {
        "status": {"conditions": [{"type": "Failed", "status": "True", "message": "no client certificates here"}]}
    }
    assert "no client certificates here" in validate_probe_result(failed)
    assert validate_probe_result({"status": {"certificate": "…"}}) == ""


async def test_init_names_the_deployment_that_does_not_run(cli_fleet: Fleet) -> None:
    said = await cli_fleet.run("init", "--deploy", "--no-probe", "--wait", "--timeout", "1s", code=3)

    assert "Deployment open-cluster-management/watchword-operator has no pod" in said
    assert "kubectl -n open-cluster-management describe deployment watchword-operator" in said
