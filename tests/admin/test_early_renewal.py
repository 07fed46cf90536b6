"""A cluster renews its credential early on request, once, and reports its validity on the hub."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness

from watchword.api.conditions import Condition, find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import NewCredential, Pending, ValidCredential
from watchword.pki.certificates import parse_certificate
from watchword.registration.agent.cluster_status import decide_credential_conditions
from watchword.registration.catalog import CATALOG
from watchword.testing.eventually import eventually, eventually_all

NOW = datetime(2026, 1, 1, tzinfo=UTC)
REFUSED = Pending("CSRDenied", "the hub denied the request", recheck=timedelta(minutes=10), failed=True)


@pytest.mark.parametrize(
    ("held", "refusal", "expected"),
    [
        pytest.param(None, None, None, id="nothing to say yet"),
        pytest.param(ValidCredential(NOW, NOW), None, None, id="a driver without words"),
        pytest.param(
            ValidCredential(NOW, NOW, "valid"), None, ("True", "ClientCertificateUpdated", "valid"), id="kept"
        ),
        pytest.param(
            NewCredential({}, NOW, NOW, NOW, "new"),
            None,
            ("True", "ClientCertificateUpdated", "new"),
            id="issued just now",
        ),
        pytest.param(
            ValidCredential(NOW, NOW, "valid"),
            REFUSED,
            ("False", "ClientCertificateUpdateFailed", "the hub denied the request"),
            id="the hub refused another",
        ),
    ],
)
def test_decide_rotated(
    held: ValidCredential | NewCredential | None, refusal: Pending | None, expected: tuple[str, ...] | None
) -> None:
    said = decide_credential_conditions(CATALOG.by_name["csr"].credential, held, refusal)

    assert said == ((Condition(ConditionType.CERTIFICATE_ROTATED, *expected),) if expected else ())  # type: ignore[arg-type]


async def test_joined_cluster_reports_the_validity_of_its_certificate(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)

    found = await eventually(
        fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name), lambda obj: bool(_said(obj)), within=90
    )

    secret = await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"))
    certificate = parse_certificate(decode_data(secret)["tls.crt"])
    assert certificate.not_after.strftime("until %Y-%m-%dT%H:%M:%SZ") in _said(found)


async def test_requested_renewal_happens_once(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")
    before = decode_data(await fleet.client.get(SECRETS, key))

    request = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "monday"}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), request)
    await eventually(fleet.client, SECRETS, key, lambda obj: decode_data(obj).get("tls.crt") != before["tls.crt"])

    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), {"metadata": {"labels": {"wake": "up"}}})
    requests = await eventually_all(
        fleet.client,
        CERTIFICATE_SIGNING_REQUESTS,
        lambda state: all((csr.get("status") or {}).get("certificate") for csr in state.values()),
    )
    own = [csr for csr in requests.values() if csr["metadata"]["labels"].get(Label.CLUSTER_NAME) == name]
    assert len(own) == 2


async def test_renewal_that_is_requested_while_a_cluster_joins_is_made_in_its_own_name(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await eventually(fleet.client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
    request = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "monday"}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), request)
    await fleet.joined(name)

    key = ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")

    def is_honoured(obj: Object | None) -> bool:
        data = decode_data(obj)
        return data.get("rotation-request") == b"monday" and "pending.key" not in data

    await eventually(fleet.client, SECRETS, key, is_honoured)
    listed = await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={name}")
    assert all((csr.get("status") or {}).get("certificate") for csr in listed.items)
    assert len(listed.items) == 2


def _said(obj: Object | None) -> str:
    said = find_condition(obj or {}, ConditionType.CERTIFICATE_ROTATED)
    return said.message if said is not None else ""
