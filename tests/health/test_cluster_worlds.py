"""Broken managed clusters: `doctor` and `status --check` name the cause, with the next command."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import orjson
import pytest
from tests.health.conftest import AGENT, AGENT_SECRET, BOOTSTRAP_SECRET, KLUSTERLET, World
from tests.helpers.kubeconfigs import kubeconfig

from watchword.api.names import Annotation
from watchword.api.resources import DEPLOYMENTS, KLUSTERLETS, SECRETS
from watchword.health.examination import Examination
from watchword.health.finding import Finding, Severity, urgent
from watchword.operator.rendering import OPERATOR
from watchword.registration.aws_irsa.agent import TokenSource
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # the real one is shared, so what others left would be found

DESCRIBE = f"kubectl describe klusterlet {KLUSTERLET.name}"
REJOIN = "watchword rejoin HOST:PORT --cluster-name edge --token TOKEN ..."
DIAL = "gRPC server hub.test:8091: connection refused"
Break = Callable[[World], Awaitable[None]]


def noted(annotation: str, text: str) -> Break:
    """Return what the agent writes beside its credential."""
    return lambda world: world.patch(SECRETS, AGENT_SECRET, {"metadata": {"annotations": {annotation: text}}})


async def damaged_certificate(world: World) -> None:
    damaged = base64.b64encode(b"damaged").decode()
    await world.patch(SECRETS, AGENT_SECRET, {"data": {"tls.crt": damaged, "tls.key": damaged}})


async def no_credential(world: World) -> None:
    for secret in (AGENT_SECRET, BOOTSTRAP_SECRET):
        await world.delete(SECRETS, secret)


WORLDS: dict[str, tuple[Break, str, str, str]] = {
    "gRPC server cannot be reached": (
        noted(Annotation.HUB_UNREACHABLE, DIAL),
        "HubUnreachable",
        f"the agent cannot reach the hub: {DIAL}",
        "watchword logs agent",
    ),
    "operator reports that the hub cannot be reached": (
        lambda world: world.say(KLUSTERLETS, KLUSTERLET, "HubConnectionDegraded", "True", DIAL),
        "KlusterletHubConnectionDegraded",
        DIAL,
        DESCRIBE,
    ),
    "hub refuses to register": (
        noted(Annotation.NOT_REGISTERED, "another key owns the name edge"),
        "NotRegistered",
        "another key owns the name edge",
        REJOIN,
    ),
    "Secret of the agent is damaged": (damaged_certificate, "CredentialDamaged", "", REJOIN),
    "Secrets of the agent are deleted": (
        no_credential,
        "NoCredential",
        "neither a credential for the hub nor one to join with",
        "watchword token create --print-join-command",
    ),
    "Klusterlet is not applied": (
        lambda world: world.say(KLUSTERLETS, KLUSTERLET, "Applied", "False", "may not create namespaces"),
        "KlusterletApplied",
        "may not create namespaces",
        DESCRIBE,
    ),
    "operator never saw the Klusterlet": (
        lambda world: world.patch(KLUSTERLETS, KLUSTERLET, {"status": {"conditions": []}}, "status"),
        "OperatorSilent",
        "has not reconciled Klusterlet",
        DESCRIBE,
    ),
    "agent at zero replicas": (
        lambda world: world.redeploy(AGENT, replicas=0),
        "ScaledToZero",
        f"Deployment {AGENT} is scaled to 0",
        f"kubectl -n {AGENT.namespace} scale deployment {AGENT.name} --replicas=1",
    ),
    "Deployment of the agent is deleted": (
        lambda world: world.delete(DEPLOYMENTS, AGENT),
        "DeploymentMissing",
        f"there is no Deployment {AGENT}",
        f"kubectl -n {AGENT.namespace} get deployments",
    ),
    "operator at zero replicas": (
        lambda world: world.redeploy(OPERATOR, replicas=0),
        "ScaledToZero",
        f"Deployment {OPERATOR} is scaled to 0",
        f"kubectl -n {OPERATOR.namespace} scale deployment {OPERATOR.name} --replicas=1",
    ),
}


async def examine(plane: Plane) -> list[Finding]:
    return [finding for _, finding in urgent(await Examination(plane.client(), plane.clock).run())]


async def test_a_cluster_that_waits_lacks_nothing_but_its_acceptance(member: World) -> None:
    assert {each.command.split("   ")[0] for each in await examine(member.plane)} == {"watchword accept edge"}


@pytest.mark.parametrize("name", WORLDS)
async def test_the_cause_is_named_with_the_next_command(member: World, name: str) -> None:
    break_, reason, cause, command = WORLDS[name]

    await break_(member)

    found = {each.reason: each for each in await examine(member.plane)}
    assert reason in found
    assert cause in found[reason].sentence
    assert found[reason].command.split("   ")[0] == command


@pytest.mark.real_time
async def test_hub_that_knows_the_agents_pods_alone_is_not_called_unreachable(
    member: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "aws").write_text("#!/bin/sh\necho Unable to locate credentials >&2\nexit 255\n")
    (tmp_path / "aws").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    plugin = TokenSource("us-west-2", "hub", f"arn:aws:iam::111122223333:role/ocm-hub-{'0' * 32}").exec_entry()
    user = {"exec": {"apiVersion": plugin.api_version, "command": plugin.command, "args": plugin.arguments}}
    document = orjson.dumps(kubeconfig("https://192.0.2.1:6443", b"", user))
    await member.patch(SECRETS, AGENT_SECRET, {"data": {"kubeconfig": base64.b64encode(document).decode()}})

    found = [
        each
        for result in await Examination(member.plane.client(), member.plane.clock).run()
        for each in result.findings
    ]

    (said,) = [each for each in found if each.reason == "HubNotAsked"]
    assert (said.severity, "Unable to locate credentials" in said.sentence) == (Severity.NOTICE, True)


async def test_a_context_that_is_neither_a_hub_nor_a_cluster_of_one_is_named(plane: Plane) -> None:
    (finding,) = await examine(plane)

    assert (finding.reason, finding.sentence) == ("NoHub", "this is neither a hub nor a cluster that has joined one")
    assert finding.command.startswith("watchword init")
