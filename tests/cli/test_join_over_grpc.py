"""`join --registration-auth grpc`: the address of the gRPC server goes into the bootstrap Secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from watchword.api.meta import ObjectKey
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET
from watchword.api.resources import KLUSTERLETS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.registration.grpc.config import GrpcConfig, parse_config, read_token

if TYPE_CHECKING:
    from tests.cli.conftest import Member

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def written_config(member: Member) -> GrpcConfig:
    spec = (await member.fleet.client.get(KLUSTERLETS, ObjectKey.cluster(member.name)))["spec"]
    secret = await member.fleet.client.get(SECRETS, ObjectKey(spec["namespace"], BOOTSTRAP_KUBECONFIG_SECRET))
    return parse_config(decode_data(secret)["config.yaml"])


async def test_server_and_authority_reach_the_bootstrap_secret_and_stay(member: Member) -> None:
    path = member.fleet.folder / "grpc-ca.crt"
    path.write_bytes(member.fleet.plane.ca_pem)
    driver = ("--registration-auth", "grpc")
    await member.join(*driver, "--grpc-server", "grpc.example.com:443", "--grpc-ca-file", str(path))
    first = await written_config(member)

    await member.join(*driver, "--grpc-server", "moved.example.com:443")
    await member.join()

    second = await written_config(member)
    klusterlet = await member.fleet.client.get(KLUSTERLETS, ObjectKey.cluster(member.name))
    assert (first.endpoint.url, first.endpoint.ca_data) == ("grpc.example.com:443", member.fleet.plane.ca_pem)
    assert (second.endpoint.url, second.endpoint.ca_data) == ("moved.example.com:443", member.fleet.plane.ca_pem)
    assert read_token(second).reveal() in member.join_arguments
    assert klusterlet["spec"]["registrationConfiguration"]["registrationDriver"]["authType"] == "grpc"


async def test_server_that_does_not_answer_is_named(member: Member) -> None:
    own = [*member.join_arguments, *member.own, "--no-deploy", "--registration-auth", "grpc"]

    assert await member.fleet.start("join", *own, "--grpc-server", "127.0.0.1:1") == 0

    said = " ".join(member.fleet.output.readouterr().err.split())
    assert "127.0.0.1:1" in said
    assert "does not answer from here" in said


@pytest.mark.parametrize(
    ("flags", "expected", "code"),
    [
        pytest.param((), "--grpc-server is missing: the driver grpc requires it", 2, id="no server"),
        pytest.param(("--grpc-server", "https://hub"), "give HOST:PORT", 2, id="a URL"),
        pytest.param(("--grpc-server", "hub:443", "--grpc-ca-file", "none"), "--grpc-ca-file none", 2, id="no file"),
    ],
)
async def test_unusable_flags_are_refused_before_anything_is_written(
    member: Member, flags: tuple[str, ...], expected: str, code: int
) -> None:
    own = [*member.join_arguments, *member.own, "--no-deploy"]
    said = await member.fleet.run("join", *own, "--registration-auth", "grpc", *flags, code=code)

    assert expected in said
    assert await member.fleet.client.find(KLUSTERLETS, ObjectKey.cluster(member.name)) is None
