"""The agent's side: what is held, what is waited for, and what is run."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from watchword.api.meta import Object
from watchword.api.names import RESTRICTED_KUBECONFIGS, Annotation, ConditionType
from watchword.credentials.credential_secret import hub_kubeconfig
from watchword.credentials.driver import (
    KUBECONFIG,
    CredentialSubject,
    NewCredential,
    Pending,
    ValidCredential,
    WantedCredential,
)
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.registration.aws_irsa.agent import AwsIrsaAgentDriver, TokenSource, read_held_entry
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN, MANAGED_ARN, MANAGED_CLUSTER_ARN, ClusterPair
from watchword.registration.catalog import CATALOG
from watchword.testing.builders import a_cluster
from watchword.testing.virtual_time import VirtualClock

SETTINGS = {
    HUB_CLUSTER_ARN.flag: "arn:aws:eks:us-west-2:111122223333:cluster/fleet-hub",
    MANAGED_CLUSTER_ARN.flag: "arn:aws:eks:eu-central-1:444455556666:cluster/edge",
}
PAIR = ClusterPair.read(SETTINGS)
OTHER = ClusterPair.read({**SETTINGS, MANAGED_CLUSTER_ARN.flag: "arn:aws:eks:eu-central-1:444455556666:cluster/other"})
WANTED = WantedCredential("edge", CredentialSubject("agent"))
SERVER = ClusterEntry("https://hub.example.com", ca_data=b"ca")


class KnownCluster:
    """Knows one ManagedCluster, or none."""

    def __init__(self, found: Object | None) -> None:
        self.found = found

    def get(self, *_: object) -> Object | None:
        return self.found

    def list(self, *_: object, **__: object) -> list[Object]:
        return []

    def by_index(self, *_: object) -> Sequence[Object]:
        return ()


def cluster(status: str = "", **notes: str) -> Object:
    row = {"type": ConditionType.HUB_ACCEPTED, "status": status, "reason": "Decided"}
    annotations = {MANAGED_ARN: str(PAIR.managed), **notes}
    return {**a_cluster("edge", annotations=annotations), "status": {"conditions": [row] if status else []}}


def accepted_by(driver: str) -> Object:
    return cluster("True", **{Annotation.ACCEPTED_DRIVER: driver})


def kubeconfig_of(pair: ClusterPair) -> dict[str, bytes]:
    return {KUBECONFIG: hub_kubeconfig(SERVER, UserEntry(plugin=TokenSource.of(pair).exec_entry()))}


def driver(found: Object | None) -> AwsIrsaAgentDriver:
    return AwsIrsaAgentDriver(KnownCluster(found), VirtualClock(asyncio.get_running_loop()), PAIR)


@pytest.mark.parametrize(
    ("found", "held", "expected"),
    [
        pytest.param(None, {}, Pending, id="the hub does not know the cluster"),
        pytest.param(cluster(), {}, Pending, id="not decided"),
        pytest.param(cluster("False"), {}, Pending, id="denied"),
        pytest.param(cluster("False"), kubeconfig_of(PAIR), Pending, id="denied after it had joined"),
        pytest.param(accepted_by("csr"), {}, Pending, id="accepted by another driver"),
        pytest.param(cluster("True", **{MANAGED_ARN: ""}), {}, Pending, id="accepted without an ARN"),
        pytest.param(cluster("True", **{MANAGED_ARN: str(OTHER.managed)}), {}, Pending, id="accepted as another"),
        pytest.param(cluster("True"), {}, NewCredential, id="accepted by a hub that records no driver"),
        pytest.param(accepted_by("aws-irsa"), {}, NewCredential, id="accepted"),
        pytest.param(cluster("True"), kubeconfig_of(OTHER), NewCredential, id="accepted, with the role of another"),
        pytest.param(cluster("True"), kubeconfig_of(PAIR), ValidCredential, id="accepted before"),
        pytest.param(None, kubeconfig_of(PAIR), ValidCredential, id="accepted before, and the hub has not answered"),
    ],
)
async def test_credential_is_obtained_once_the_hub_accepts(
    found: Object | None, held: dict[str, bytes], expected: type
) -> None:
    answer = await driver(found).obtain(WANTED, held)

    assert type(answer) is expected


async def test_new_credential_holds_no_secret_and_does_not_expire() -> None:
    answer = await driver(cluster("True")).obtain(WANTED, {})

    assert isinstance(answer, NewCredential)
    assert (answer.data, answer.expires_at, answer.renew_at) == ({}, None, None)
    assert PAIR.hub_role in answer.message


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="nothing"),
        pytest.param({KUBECONFIG: b"get-token: ["}, id="not YAML"),
        pytest.param({KUBECONFIG: b"- get-token"}, id="a list"),
        pytest.param({KUBECONFIG: b"users: [{name: get-token}]"}, id="a user without an entry"),
        pytest.param({KUBECONFIG: b"users: [{user: {exec: {args: [get-token]}}}]"}, id="no role"),
        pytest.param({KUBECONFIG: hub_kubeconfig(SERVER, UserEntry(token_file=Path("token")))}, id="another driver's"),
    ],
)
def test_kubeconfig_of_another_form_is_not_taken_for_a_role(data: dict[str, bytes]) -> None:
    assert read_held_entry(data) is None
    assert CATALOG.holder_of(data) == ""


@pytest.mark.parametrize(
    ("instead", "of"),
    [
        pytest.param('"command": "sh"', '"command": "aws"', id="another command"),
        pytest.param('"--endpoint-url=https://evil.example.com"', '"json"', id="another argument"),
        pytest.param('"us-west-2;sh"', '"us-west-2"', id="a region that is none"),
        pytest.param("role/administrator", f"role/ocm-hub-{PAIR.identifier}", id="a role of another name"),
    ],
)
def test_changed_exec_entry_is_not_taken_for_one_of_this_driver(instead: str, of: str) -> None:
    text = kubeconfig_of(PAIR)[KUBECONFIG].decode()
    assert of in text

    assert TokenSource.read({KUBECONFIG: text.replace(of, instead).encode()}) is None
    assert TokenSource.read({KUBECONFIG: text.encode()}) == TokenSource.of(PAIR)


def test_held_kubeconfig_is_shown_as_the_role_that_it_assumes() -> None:
    held = CATALOG.read_held(kubeconfig_of(PAIR))

    assert held is not None
    assert (held.subject, held.validity.expires) == (PAIR.hub_role, None)


def test_agent_runs_the_aws_command_where_it_is_installed(tmp_path: Path) -> None:
    program = tmp_path / "aws"
    program.touch(mode=0o755)
    environment = {"PATH": str(tmp_path), "AWS_ROLE_ARN": PAIR.managed_role, "SECRET": "not passed on"}

    plugin = TokenSource.of(PAIR).choose_plugin(environment)

    assert (plugin.command, plugin.arguments) == (str(program), TokenSource.of(PAIR).exec_entry().arguments)
    assert plugin.environment == {"AWS_ROLE_ARN": PAIR.managed_role}


def test_agent_runs_its_own_verb_where_the_aws_command_is_missing(tmp_path: Path) -> None:
    plugin = TokenSource.of(PAIR).choose_plugin({"PATH": str(tmp_path)})

    assert plugin.command == sys.executable
    assert plugin.arguments[:6] == ("-P", "-s", "-m", "watchword", "aws", "get-token")
    assert plugin.arguments[-2:] == ("--role-arn", PAIR.hub_role)


def test_agent_in_the_process_node_never_runs_the_aws_command(tmp_path: Path) -> None:
    (tmp_path / "aws").touch(mode=0o755)

    plugin = TokenSource.of(PAIR).choose_plugin({"PATH": str(tmp_path), RESTRICTED_KUBECONFIGS: "1"})

    assert plugin.command == sys.executable


def test_exec_entry_of_a_kubeconfig_is_still_refused_by_the_process_node() -> None:
    with pytest.raises(ConfigError, match="pods of the process node do not run"):
        parse_kubeconfig(kubeconfig_of(PAIR)[KUBECONFIG], environment={RESTRICTED_KUBECONFIGS: "1"})
