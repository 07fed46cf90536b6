"""A cluster that registers over gRPC is revoked like any other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from tests.registration.grpc.grpc_fleet import GrpcFleet

from watchword.admin.accept import HubAdmin
from watchword.admin.revoke.holders import HolderLookup, read_held_entries
from watchword.admin.revoke.kinds import plan_cluster
from watchword.admin.revoke.revocation import RefusalMeasurement
from watchword.api.resources import CONFIG_MAPS
from watchword.kube.access_reviews import UserIdentity
from watchword.kube.credentials import Credential
from watchword.runtime.clock import SystemClock

pytestmark = pytest.mark.real_time


async def test_revoked_cluster_receives_nothing(grpc_fleet: GrpcFleet) -> None:
    name, other = await grpc_fleet.joined(), await grpc_fleet.joined()
    admin = HubAdmin(grpc_fleet.client, SystemClock())
    planned = await plan_cluster(admin, name)
    assert [await probe.is_refused() for probe in planned.probes] == [False, False]

    assert await planned.act()
    refusals = await RefusalMeasurement(timedelta(minutes=1), 0.0).run(planned.probes)
    assert [refusal.error for refusal in refusals] == ["", ""]
    key = await grpc_fleet.has_work(name, "late")
    await grpc_fleet.applied(other, "kept")
    assert await grpc_fleet.client.find(CONFIG_MAPS, key) is None


async def test_certificate_for_the_grpc_server_is_named_with_its_cluster(grpc_fleet: GrpcFleet, tmp_path: Path) -> None:
    name = await grpc_fleet.joined()
    laptop = tmp_path / "laptop"
    laptop.mkdir()
    for file, data in (await grpc_fleet.secret(name)).items():
        (laptop / file).write_bytes(data)
    users = "users: [{name: agent, user: {client-certificate: tls.crt, client-key: tls.key}}]"
    (laptop / "kubeconfig").write_text(f"apiVersion: v1\nkind: Config\n{users}\n")

    lookup = HolderLookup(grpc_fleet.client, SystemClock(), refuse)
    found = [await lookup.find(entry) for entry in read_held_entries(laptop)]
    assert [f"watchword revoke cluster {name}" in holding.problem for holding in found] == [True]
    assert not any(holding.is_harmless for holding in found)


async def refuse(_credential: Credential) -> UserIdentity | None:
    """Answer as an API server that does not know the authority of the gRPC server's certificates."""
    return None
