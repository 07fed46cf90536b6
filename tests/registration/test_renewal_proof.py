"""The hub can tell whether an agent uses the certificate that was last issued to it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness

from watchword.api.conditions import find_condition
from watchword.api.credential_report import CredentialUse, certificate_id, parse_issued, parse_used, token_id
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS, SERVICE_ACCOUNTS
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.credentials.credential_secret import decode_data
from watchword.health.audit_log import read_audit_logs
from watchword.health.hub_reader import read_hub_facts
from watchword.health.inventory import build_inventory
from watchword.kube.access_reviews import who_am_i
from watchword.kube.connect import connect, endpoint_of, make_client
from watchword.kube.credentials import Credential, FixedCredential, bearer
from watchword.kube.kubeconfig_files import load_kubeconfig
from watchword.kube.tokens import request_token
from watchword.pki.certificates import parse_certificate
from watchword.pki.jwt import read_unverified_claims
from watchword.testing.eventually import eventually
from watchword.testing.plane import Plane


def credential_message(obj: Object | None) -> str:
    said = find_condition(obj or {}, ConditionType.CERTIFICATE_ROTATED)
    return "" if said is None else said.message


async def certificate_of(fleet: FleetHarness, name: str) -> str:
    """Return the id of the certificate in the Secret of an agent."""
    held = decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))
    return certificate_id(parse_certificate(held["tls.crt"]).der)


async def test_agent_reports_the_certificate_that_its_connection_uses(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    key, first = ObjectKey.cluster(name), await certificate_of(fleet, name)

    def uses_another(obj: Object | None) -> bool:
        message = credential_message(obj)
        return parse_used(message) not in ("", first) and {parse_used(message)} == parse_issued(message)

    await eventually(fleet.client, MANAGED_CLUSTERS, key, lambda obj: parse_used(credential_message(obj)) == first)
    request = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "monday"}}}
    await fleet.client.patch(MANAGED_CLUSTERS, key, request)
    renewed = await eventually(fleet.client, MANAGED_CLUSTERS, key, uses_another)

    assert parse_used(credential_message(renewed)) == await certificate_of(fleet, name)
    inventory = build_inventory(await read_hub_facts(fleet.client), now=fleet.plane.clock.now())
    assert [row.use for row in inventory.credentials if row.cluster == name] == [CredentialUse.CURRENT]


async def test_server_tells_which_certificate_a_client_uses(plane: Plane) -> None:
    one, other = [await who_am_i(plane.fresh_client(name)) for name in ("one", "other")]

    assert one.credential_id.startswith("X509SHA256=")
    assert one.credential_id != other.credential_id


@pytest.mark.real_time
async def test_audit_log_of_the_embedded_plane_tells_which_token_was_used(tmp_path: Path) -> None:
    settings = InstanceSettings(data_dir=tmp_path / "data", port=0, audit_log=tmp_path / "audit.log")
    instance = Instance(settings, lambda: datetime.now(UTC))
    await instance.start()
    admin, account = connect(instance.kubeconfig), ObjectKey("default", "default")
    await eventually(admin, SERVICE_ACCOUNTS, account)
    issued = await request_token(admin, account, expiration_seconds=3600)
    entry = load_kubeconfig(instance.kubeconfig, {}).choose("").cluster
    client = make_client(endpoint_of(entry), FixedCredential(Credential(bearer(issued.token.reveal().encode()))))
    me = await who_am_i(client)
    for each in (client, admin):
        await each.close()
    await instance.stop()

    seen = read_audit_logs([tmp_path / "audit.log"]).last_of(me.username)

    assert seen is not None
    assert seen[0] == me.credential_id == token_id(read_unverified_claims(issued.token.reveal())["jti"])
