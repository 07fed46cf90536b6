"""The authority of the gRPC server is rotated while agents run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE
from tests.registration.grpc.grpc_fleet import GrpcFleet

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import GRPC_SIGNER, Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import decode_data, encode_data
from watchword.pki.authority import Authority
from watchword.pki.certificates import parse_certificate, verify_chain
from watchword.pki.subjects import Usage
from watchword.registration.grpc.config import GrpcEndpoint, bootstrap_config, parse_config, read_token
from watchword.registration.grpc.driver import SERVING_SECRET, SIGNER_SECRET
from watchword.testing.eventually import eventually

pytestmark = pytest.mark.real_time


async def publish(grpc_fleet: GrpcFleet, name: str, endpoint: GrpcEndpoint) -> None:
    """Give an agent another endpoint, and wait until it has adopted it."""
    path = grpc_fleet.folder / name / "config.yaml"
    path.write_bytes(bootstrap_config(endpoint, read_token(parse_config(path.read_bytes()))))

    def is_adopted(secret: Object | None) -> bool:
        return parse_config(decode_data(secret)["config.yaml"]).endpoint == endpoint

    await eventually(grpc_fleet.client, SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"), is_adopted)


async def let_sign(grpc_fleet: GrpcFleet, successor: Authority) -> None:
    """Make an authority the one of the signer; the certificate of the server is one of it from now on."""
    await grpc_fleet.client.delete(SECRETS, SERVING_SECRET)
    signer = await grpc_fleet.client.get(SECRETS, SIGNER_SECRET)
    pair = {"tls.crt": successor.certificate.pem, "tls.key": successor.key.pem.reveal()}
    await grpc_fleet.client.update(SECRETS, {**signer, "data": encode_data(pair)})


async def renewed_certificate(grpc_fleet: GrpcFleet, name: str) -> bytes:
    """Request a renewal, and return the new certificate."""
    first = (await grpc_fleet.secret(name))["tls.crt"]
    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "now"}}}
    await grpc_fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), patch)

    def is_renewed(secret: Object | None) -> bool:
        return decode_data(secret)["tls.crt"] != first

    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    return decode_data(await eventually(grpc_fleet.client, SECRETS, key, is_renewed))["tls.crt"]


@pytest.mark.slow
async def test_successor_is_published_and_then_signs_without_another_join(grpc_fleet: GrpcFleet) -> None:
    name, now = await grpc_fleet.joined(), grpc_fleet.members.plane.clock.now()
    before, successor = grpc_fleet.servers[0], Authority.make(GRPC_SIGNER, now=now)
    issued = (await grpc_fleet.secret(name))["tls.crt"]
    both = replace(before.endpoint, ca_data=before.endpoint.ca_data + successor.certificate.pem)
    await publish(grpc_fleet, name, both)

    await let_sign(grpc_fleet, successor)
    await before.kill()
    await grpc_fleet.start_server(before.endpoint.address[1])
    await grpc_fleet.applied(name, "rotated")
    kept = (await grpc_fleet.secret(name))["tls.crt"]
    renewed = await renewed_certificate(grpc_fleet, name)
    await grpc_fleet.applied(name, "renewed")

    serving = decode_data(await grpc_fleet.client.get(SECRETS, SERVING_SECRET))["tls.crt"]
    requests = await grpc_fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
    verify_chain(parse_certificate(serving), [successor.certificate], now=now, usage=Usage.SERVER_AUTH)
    verify_chain(parse_certificate(renewed), [successor.certificate], now=now)
    assert kept == issued
    assert len(requests.items) == 2  # of the join and of the renewal
