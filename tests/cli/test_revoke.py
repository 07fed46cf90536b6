"""`watchword revoke` on clusters, bootstrap tokens, and what a lost machine held."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.conftest import Member
from tests.helpers.fleet import transport_with

from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_KUBECONFIG_SECRET
from watchword.api.resources import EVENTS, LEASES, MANAGED_CLUSTERS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.cli.connection_options import ClusterConnection
from watchword.cli.revoke import _authenticate
from watchword.credentials.credential_secret import decode_data
from watchword.kube.access_reviews import review_token
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.errors import ConfigError, Forbidden

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Fleet

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
UNKNOWN = [
    pytest.param(("cluster", "nowhere"), "there is no cluster nowhere", 7, id="cluster"),
    pytest.param(("addon", "edge/reporter"), "add-on reporter is not enabled on edge", 7, id="add-on"),
    pytest.param(("addon", "reporter"), "is not CLUSTER/NAME", 2, id="add-on without its cluster"),
    pytest.param(("pull-secret", "default/nobody"), "there is no ServiceAccount nobody", 7, id="pull secret"),
    pytest.param(("token", "abc123"), "there is no token with id abc123", 7, id="token"),
    pytest.param(("token", "x"), "give a token id", 2, id="no token id"),
]


async def joined(member: Member) -> Client:
    """Let a cluster join and return a client with the certificate of its agent."""
    await member.asks()
    await member.fleet.run("accept", "-c", member.name)
    await member.joined()
    await member.has_credential()
    data = await credential(member)
    return member.fleet.plane.adopt(Client(transport_with(member.fleet.plane, data["tls.crt"], data["tls.key"])))


async def credential(member: Member) -> dict[str, bytes]:
    secret = await member.fleet.client.get(SECRETS, ObjectKey(member.namespace, HUB_KUBECONFIG_SECRET))
    return decode_data(secret)


async def read_lease(client: Client, cluster: str) -> None:
    await client.get(LEASES, ObjectKey(cluster, "managed-cluster-lease"))


async def a_token(fleet: Fleet) -> str:
    return (await fleet.run("token", "create")).strip()


async def is_accepted(fleet: Fleet, token: str) -> bool:
    return await review_token(fleet.client, Sensitive(token)) is not None


async def revoke(fleet: Fleet, *argv: str, code: int = 0) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Run the command and return its document and the audit lines."""
    told = await fleet.start("-v", "revoke", *argv, "--yes", "--wait", "-o", "json")
    shown = fleet.output.readouterr()
    assert told == code, shown.err
    lines = [json.loads(line) for line in shown.err.splitlines() if line.startswith("{")]
    return json.loads(shown.out), [line for line in lines if line.get("reason") == "CredentialRevoked"]


async def test_revoked_cluster_is_refused_and_others_keep_their_rights(member: Member) -> None:
    fleet = member.fleet
    holder = await joined(member)
    other_member = Member(fleet, fleet.unique("edge"), member.join_arguments)
    other = await joined(other_member)
    await read_lease(holder, member.name)

    said, audit = await revoke(fleet, "cluster", member.name)
    (row,) = said["revocations"]
    assert (row["kind"], row["name"], row["changed"]) == ("cluster", member.name, True)
    assert [refusal["seconds"] >= 0 for refusal in row["refusals"]] == [True, True]
    with pytest.raises(Forbidden):
        await read_lease(holder, member.name)
    await read_lease(other, other_member.name)
    (line,) = audit
    assert (line["object_kind"], line["object"]) == ("ManagedCluster", member.name)
    assert await events_of(fleet, member.name) == ["CredentialRevoked"]

    again, audit = await revoke(fleet, "cluster", member.name)
    assert (again["revocations"][0]["changed"], audit) == (False, [])


async def events_of(fleet: Fleet, name: str) -> list[str]:
    found = (await fleet.client.list(EVENTS, namespace="default")).items
    own = [event for event in found if event.get("reportingController") == "watchword.dev/revoke"]
    return [event["reason"] for event in own if event["regarding"]["name"] == name]


async def test_dry_run_says_what_would_be_done_and_changes_nothing(member: Member) -> None:
    holder = await joined(member)
    token = await a_token(member.fleet)
    before = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))

    said = await member.fleet.run("revoke", "cluster", member.name, "--dry-run")
    assert f"cluster {member.name} would be revoked" in said
    assert f"deny ManagedCluster {member.name}" in said
    said = await member.fleet.run("revoke", "token", token[:6], "--dry-run", "--wait")
    assert f"delete Secret kube-system/bootstrap-token-{token[:6]}" in said
    assert token not in said
    after = await member.fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name))
    assert after["spec"] == before["spec"]
    await read_lease(holder, member.name)
    assert await is_accepted(member.fleet, token)


async def test_revoked_token_is_refused_and_another_is_not(cli_fleet: Fleet) -> None:
    token, other = await a_token(cli_fleet), await a_token(cli_fleet)
    assert await is_accepted(cli_fleet, token)

    said, audit = await revoke(cli_fleet, "token", token[:6])
    assert [row["holder"] for row in said["revocations"][0]["refusals"]] == [f"token {token[:6]}"]
    assert not await is_accepted(cli_fleet, token)
    assert await is_accepted(cli_fleet, other)
    assert [line["object"] for line in audit] == [f"kube-system/bootstrap-token-{token[:6]}"]
    assert token[7:] not in json.dumps([said, audit])

    await cli_fleet.run("revoke", "token", token[:6], "--yes", code=7)
    await cli_fleet.run("revoke", "token", token[:6], "--yes", "--ignore-not-found")


@pytest.mark.parametrize(("argv", "sentence", "code"), UNKNOWN)
async def test_unknown_name_is_refused_before_anything_is_changed(
    member: Member, argv: tuple[str, str], sentence: str, code: int
) -> None:
    assert sentence in await member.fleet.run("revoke", *argv, "--yes", code=code)


async def test_without_a_terminal_nothing_is_revoked_unless_confirmed(cli_fleet: Fleet) -> None:
    token = await a_token(cli_fleet)
    said = await cli_fleet.run("revoke", "token", token[:6], code=2)
    assert f"delete Secret kube-system/bootstrap-token-{token[:6]}" in said
    assert "give --yes" in said
    assert await is_accepted(cli_fleet, token)


async def test_all_that_a_lost_machine_held_is_revoked_or_named(member: Member, tmp_path: Path) -> None:
    fleet, laptop = member.fleet, tmp_path / "laptop"
    holder = await joined(member)
    for name, data in (await credential(member)).items():
        write(laptop / "agent" / name, data)
    write(laptop / "bootstrap.yaml", await member.bootstrap_kubeconfig())
    write(laptop / "admin.conf", fleet.plane.kubeconfig.read_bytes())
    write(laptop / "notes.txt", b"users: what an apostrophe's for")

    said, _ = await revoke(fleet, "held-by", str(laptop), code=5)
    kinds = {row["kind"] for row in said["revocations"]}
    assert kinds == {"cluster", "token"}
    (left,) = [row for row in said["held"] if not row["kind"]]
    assert left["file"].endswith("admin.conf")
    assert "system:masters" in left["problem"]
    with pytest.raises(Forbidden):
        await read_lease(holder, member.name)

    again, audit = await revoke(fleet, "held-by", str(laptop), code=5)
    assert ([row["changed"] for row in again["revocations"]], audit) == ([False], [])


async def test_hub_that_cannot_be_named_says_nothing_about_a_credential(tmp_path: Path) -> None:
    nowhere = ClusterConnection(tmp_path / "absent")

    with pytest.raises(ConfigError):
        await _authenticate(nowhere, Credential())


def write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
