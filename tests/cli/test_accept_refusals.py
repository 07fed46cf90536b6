"""What `accept` refuses on a hub with malicious requests: nothing is changed, and both names are shown."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from watchword.api.bootstrap import ANNOTATION_USED_BY, token_secret_key
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER, Label, agent_user, cluster_group
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.credentials.evidence import connect_with_token
from watchword.kube.endpoint import Endpoint
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.testing.builders import a_cluster

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120)]


async def asks(cli_fleet: Fleet, label: str, subject: str, *, token: str, request: str = "") -> str:
    """Post a certificate request with a token, as an agent or an intruder would, and return its name."""
    key = PrivateKey.generate()
    name = request or f"{label}-{key.public.thumbprint[:8]}"
    asked = build_csr(key, CertificateSubject(agent_user(subject, "agent"), (cluster_group(subject),)))
    spec = {
        "request": base64.b64encode(asked).decode(),
        "signerName": KUBE_CLIENT_SIGNER,
        "usages": ["digital signature", "client auth"],
    }
    client = connect_with_token(Endpoint(cli_fleet.plane.server, cli_fleet.plane.ca_pem))(Sensitive(token))
    metadata = {"labels": {Label.CLUSTER_NAME: label}}
    manifest = CERTIFICATE_SIGNING_REQUESTS.manifest(ObjectKey.cluster(name), metadata=metadata, spec=spec)
    await client.create(CERTIFICATE_SIGNING_REQUESTS, manifest)
    await client.close()
    return name


async def has_cluster(cli_fleet: Fleet) -> str:
    name = cli_fleet.unique("harmless")
    await cli_fleet.client.create(MANAGED_CLUSTERS, a_cluster(name))
    return name


async def nothing_changed(cli_fleet: Fleet, name: str, request: str) -> bool:
    cluster: Object = await cli_fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    csr = await cli_fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(request))
    return not cluster["spec"]["hubAcceptsClient"] and not csr["status"]


@pytest.fixture
async def token(cli_fleet: Fleet) -> str:
    arguments = await cli_fleet.init("--no-probe")
    return arguments[arguments.index("--token") + 1]


async def test_request_with_a_harmless_label_and_another_clusters_subject_is_refused(
    cli_fleet: Fleet, token: str
) -> None:
    name = await has_cluster(cli_fleet)
    request = await asks(cli_fleet, name, "victim", token=token)
    for flags in ([], ["--skip-approve-check"], ["--request", request], ["--requesters", "anyone"]):
        said = await cli_fleet.run("accept", "--clusters", name, *flags, code=4)
        assert name in said
        assert agent_user("victim", "agent") in said
    assert await nothing_changed(cli_fleet, name, request)


async def test_honest_request_is_accepted_beside_one_that_names_a_victim(cli_fleet: Fleet, token: str) -> None:
    name = await has_cluster(cli_fleet)
    hostile, honest = await asks(cli_fleet, name, "victim", token=token), await asks(cli_fleet, name, name, token=token)

    await cli_fleet.run("accept", "--clusters", name)

    found = {
        one: await cli_fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(one))
        for one in (hostile, honest)
    }
    assert [row["type"] for row in found[honest]["status"]["conditions"]] == ["Approved"]
    assert not found[hostile]["status"]


async def test_two_keys_that_ask_for_one_name_are_refused_until_one_is_chosen(cli_fleet: Fleet, token: str) -> None:
    name = await has_cluster(cli_fleet)
    first, second = [await asks(cli_fleet, name, name, token=token) for _ in range(2)]
    said = await cli_fleet.run("accept", "--clusters", name, code=4)
    assert first in said
    assert second in said
    assert await nothing_changed(cli_fleet, name, first)
    await cli_fleet.run("deny", "--request", second)
    await cli_fleet.run("accept", "--clusters", name)
    assert not await nothing_changed(cli_fleet, name, first)


async def test_a_requester_that_is_no_bootstrap_identity_must_be_named(cli_fleet: Fleet, token: str) -> None:
    name = await has_cluster(cli_fleet)
    request = await asks_as_administrator(cli_fleet, name)
    said = await cli_fleet.run("accept", "--clusters", name, code=4)
    requester = (await cli_fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(request)))["spec"][
        "username"
    ]
    assert f"--requesters {requester}" in said
    assert await nothing_changed(cli_fleet, name, request)
    await cli_fleet.run("accept", "--clusters", name, "--requesters", requester)
    assert not await nothing_changed(cli_fleet, name, request)


async def asks_as_administrator(cli_fleet: Fleet, name: str) -> str:
    key = PrivateKey.generate()
    asked = build_csr(key, CertificateSubject(agent_user(name, "agent"), (cluster_group(name),)))
    usages = ["digital signature", "client auth"]
    spec = {"request": base64.b64encode(asked).decode(), "signerName": KUBE_CLIENT_SIGNER, "usages": usages}
    metadata = {"labels": {Label.CLUSTER_NAME: name}}
    manifest = CERTIFICATE_SIGNING_REQUESTS.manifest(ObjectKey.cluster(f"{name}-1"), metadata=metadata, spec=spec)
    await cli_fleet.client.create(CERTIFICATE_SIGNING_REQUESTS, manifest)
    return f"{name}-1"


async def test_token_bound_to_other_cluster_names_lets_no_cluster_join(cli_fleet: Fleet, token: str) -> None:
    bound = (await cli_fleet.run("token", "create", "--for-cluster", "prod-*", "--max-uses", "1")).strip()
    name = await has_cluster(cli_fleet)
    request = await asks(cli_fleet, name, name, token=bound)
    said = await cli_fleet.run("accept", "--clusters", name, code=4)
    assert "bound to prod-*" in said
    assert await nothing_changed(cli_fleet, name, request)


async def test_uses_of_a_token_are_counted(cli_fleet: Fleet, token: str) -> None:
    single = (await cli_fleet.run("token", "create", "--max-uses", "1")).strip()
    first, second = [await has_cluster(cli_fleet) for _ in range(2)]
    for name in (first, second):
        await asks(cli_fleet, name, name, token=single)
    await cli_fleet.run("accept", "--clusters", first, "--dry-run")
    await cli_fleet.run("accept", "--clusters", first)
    said = await cli_fleet.run("accept", "--clusters", second, code=4)
    secret = await cli_fleet.client.get(SECRETS, token_secret_key(single[:6]))
    assert "has been used 1 times" in said
    assert secret["metadata"]["annotations"][ANNOTATION_USED_BY] == first


async def test_deleted_token_signs_nothing(cli_fleet: Fleet, token: str) -> None:
    short = (await cli_fleet.run("token", "create")).strip()
    name = await has_cluster(cli_fleet)
    await asks(cli_fleet, name, name, token=short)
    await cli_fleet.run("token", "delete", short[:6])
    said = await cli_fleet.run("accept", "--clusters", name, code=4)
    assert f"--requesters system:bootstrap:{short[:6]}" in said
    await cli_fleet.run("accept", "--clusters", name, "--requesters", f"system:bootstrap:{short[:6]}")


async def test_cluster_without_a_request_is_accepted_only_when_the_check_is_skipped(
    cli_fleet: Fleet, token: str
) -> None:
    name = await has_cluster(cli_fleet)
    assert "has not asked" in await cli_fleet.run("accept", "--clusters", name, code=3)
    assert "no cluster nobody" in await cli_fleet.run("accept", "--clusters", "nobody", code=7)
    await cli_fleet.run("accept", "--clusters", name, "--skip-approve-check")
    assert (await cli_fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))["spec"]["hubAcceptsClient"]
