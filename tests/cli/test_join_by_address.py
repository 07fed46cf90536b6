"""`join` with clusteradm's flags: the token is never sent to an unverified hub."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.names import BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT
from watchword.api.resources import KLUSTERLETS, SERVICE_ACCOUNTS
from watchword.kube.kubeconfig_files import parse_kubeconfig

if TYPE_CHECKING:
    from tests.cli.conftest import Member

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def join_by_address(member: Member, token: str, *flags: str, code: int = 0) -> str:
    address = ["--hub-token", token, "--hub-apiserver", member.fleet.plane.server]
    return await member.fleet.run("join", *address, *member.own, "--no-deploy", *flags, code=code)


async def account_token(member: Member) -> str:
    """Return a token of the bootstrap account, as `clusteradm get token` hands it out."""
    key = ObjectKey(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600, "audiences": None},
    }
    path = SERVICE_ACCOUNTS.path(key, subresource="token")
    answer = await member.fleet.client.request("POST", path, body=request)
    return str(json.loads(answer.body)["status"]["token"])


async def test_a_bootstrap_token_finds_the_authority_by_its_signature(member: Member) -> None:
    token = member.join_arguments[member.join_arguments.index("--token") + 1]
    await join_by_address(member, token)
    written = parse_kubeconfig(await member.bootstrap_kubeconfig())
    choice = written.choose()
    assert (written.current_context, set(written.clusters), set(written.users)) == ("bootstrap", {"hub"}, {"bootstrap"})
    assert choice.cluster.ca_data == member.fleet.plane.ca_pem
    assert choice.user.token is not None
    assert choice.user.token.reveal() == token


async def test_another_token_needs_an_authority_or_a_pin(member: Member) -> None:
    token = await account_token(member)
    said = await join_by_address(member, token, code=2)
    assert "--ca-file" in said
    assert token not in said
    pin = member.join_arguments[member.join_arguments.index("--discovery-token-ca-cert-hash") + 1]
    await join_by_address(member, token, "--discovery-token-ca-cert-hash", pin)
    path = member.fleet.folder / "ca.crt"
    path.write_bytes(member.fleet.plane.ca_pem)
    await join_by_address(member, token, "--ca-file", str(path))


async def test_token_is_not_sent_to_a_server_with_a_wrong_pin(member: Member) -> None:
    token = await account_token(member)
    said = await join_by_address(member, token, "--discovery-token-ca-cert-hash", "sha256:" + "0" * 64, code=4)
    assert "pinned" in said
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None


async def test_a_token_the_hub_does_not_know_is_found_before_anything_is_written(member: Member) -> None:
    path = member.fleet.folder / "ca.crt"
    path.write_bytes(member.fleet.plane.ca_pem)
    said = await join_by_address(member, "aaaaaa.q8w3e5r1t0y6u4i2", "--ca-file", str(path), code=4)
    assert "the hub does not know this token" in said
    assert "token create" in said


async def test_a_cluster_does_not_join_twice_under_two_names(member: Member) -> None:
    await member.join()
    flags = ["--cluster-name", "other", "--klusterlet-name", member.name, "--no-deploy"]
    said = await member.fleet.run("join", *member.join_arguments, *flags, code=4)
    assert f"unjoin --cluster-name {member.name}" in said


async def test_settings_reach_the_klusterlet(member: Member) -> None:
    await member.join(
        "--cluster-labels", "site=a", "--client-cert-expiration-seconds", "7200", "--feature-gates", "X=true"
    )
    spec = (await member.fleet.client.get(KLUSTERLETS, ObjectKey.cluster(member.name)))["spec"]
    registration = spec["registrationConfiguration"]
    assert (spec["clusterName"], registration["clusterLabels"]) == (member.name, {"site": "a"})
    assert registration["clientCertExpirationSeconds"] == 7200
    assert registration["featureGates"] == [{"feature": "X", "mode": "Enable"}]
