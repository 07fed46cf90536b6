"""ClusterDiscovery on a whole control plane, over sockets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.discoverable_hub import DiscoverableHub

from watchword.admin.node_join import write_certificate_kubeconfig
from watchword.api.bootstrap import CLUSTER_INFO, token_secret_key
from watchword.api.meta import ObjectKey
from watchword.api.names import Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CONFIG_MAPS, SECRETS, SELF_SUBJECT_REVIEWS
from watchword.credentials.certificates.issued_certificate import load_or_create_key
from watchword.credentials.certificates.requests import CertificateSpec, certificate_request_manifest
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.discovery.controllers import decide_signatures
from watchword.discovery.discover import BootstrapTokenDiscovery, ClusterDiscovery
from watchword.discovery.errors import BootstrapFailed, BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.setup import FIELD_MANAGER, DiscoverySetup, discovery_manifests
from watchword.discovery.tls_bootstrap import TlsBootstrap
from watchword.discovery.token_secret import TokenStore, TokenUsage
from watchword.kube.connect import connect
from watchword.kube.errors import NotFound
from watchword.pki.authority import Authority
from watchword.pki.certificates import split_bundle
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.runtime.manifests import apply_manifests
from watchword.testing.eventually import eventually, is_gone

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
GROUPS = ("system:bootstrappers:managedcluster",)
WISH = CertificateSpec(
    CertificateSubject("system:open-cluster-management:edge-1:agent-1", ("system:open-cluster-management:edge-1",)),
    labels={Label.CLUSTER_NAME: "edge-1"},  # without it, a hub refuses requests of this group
)


async def test_a_machine_with_an_address_a_token_and_a_pin_gets_a_certificate(
    hub: DiscoverableHub, tmp_path: Path
) -> None:
    await hub.plane.controllers("certificatesigningrequest-signing-controller")
    token = await hub.has_token(groups=GROUPS)
    async with hub.controllers():
        found = await ClusterDiscovery(hub.client_factory).by_token(
            BootstrapTokenDiscovery(hub.plane.server, token, hub.info.pins)
        )
    bootstrap = TlsBootstrap(hub.holding(token), hub.plane.clock, roots=found.authorities)
    key = load_or_create_key(tmp_path / "key.pem")
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(bootstrap.obtain(WISH, key))
        await approve(hub, ObjectKey.of(certificate_request_manifest(WISH, key)))
    write_certificate_kubeconfig(tmp_path / "kubeconfig", found, asked.result())
    await bootstrap.client.close()

    client = connect(tmp_path / "kubeconfig")
    review = await client.create(
        SELF_SUBJECT_REVIEWS, {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    )
    await client.close()
    assert review["status"]["userInfo"]["username"] == WISH.subject.common_name
    assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600


async def approve(hub: DiscoverableHub, key: ObjectKey, kind: str = "Approved") -> None:
    request = await eventually(hub.client, CERTIFICATE_SIGNING_REQUESTS, key)
    condition = {"type": kind, "status": "True", "reason": "Test", "message": "by the test"}
    changed = {**request, "status": {"conditions": [condition]}}
    await hub.client.update(CERTIFICATE_SIGNING_REQUESTS, changed, subresource="approval")


async def test_denied_request_is_reported_and_found_by_a_second_attempt(hub: DiscoverableHub) -> None:
    token = await hub.has_token(groups=GROUPS)
    bootstrap = TlsBootstrap(hub.holding(token), hub.plane.clock)
    key = PrivateKey.generate()
    async with asyncio.TaskGroup() as group:
        asked = group.create_task(refusal_of(bootstrap, key))
        await approve(hub, ObjectKey.of(certificate_request_manifest(WISH, key)), "Denied")
    assert asked.result().reason == DiscoveryReason.REQUEST_DENIED
    assert "by the test" in str(asked.result())
    assert (await refusal_of(bootstrap, key)).reason == DiscoveryReason.REQUEST_DENIED
    await bootstrap.client.close()


async def refusal_of(bootstrap: TlsBootstrap, key: PrivateKey) -> BootstrapFailed:
    with pytest.raises(BootstrapFailed) as refusal:
        await bootstrap.obtain(WISH, key)
    return refusal.value


async def test_request_that_is_never_approved_times_out_with_advice(hub: DiscoverableHub) -> None:
    token = await hub.has_token(groups=GROUPS)
    bootstrap = TlsBootstrap(hub.holding(token), hub.plane.clock, patience=timedelta(milliseconds=300))
    refused = await refusal_of(bootstrap, PrivateKey.generate())
    await bootstrap.client.close()
    assert refused.reason == DiscoveryReason.NOT_APPROVED
    assert "kubectl certificate approve" in str(refused)


async def test_a_token_without_the_group_may_not_ask_for_certificates(hub: DiscoverableHub) -> None:
    token = await hub.has_token()
    bootstrap = TlsBootstrap(hub.holding(token), hub.plane.clock)
    refused = await refusal_of(bootstrap, PrivateKey.generate())
    await bootstrap.client.close()
    assert refused.reason == DiscoveryReason.REQUEST_REFUSED


async def test_signatures_follow_the_tokens(hub: DiscoverableHub) -> None:
    first = await hub.has_token()
    async with hub.controllers():
        await hub.signed_for(first)
        second = await hub.has_token()
        await hub.has_token(usages=(TokenUsage.AUTHENTICATION,))
        await hub.signed_for(first, second)
        await TokenStore(hub.client).delete(first.id)
        await hub.signed_for(second)


async def test_a_token_that_expires_loses_its_signature_and_its_secret_at_that_moment(hub: DiscoverableHub) -> None:
    async with hub.controllers():
        lasting, brief = await hub.has_token(ttl=None), await hub.has_token(ttl=timedelta(seconds=2))
        await hub.signed_for(lasting, brief)
        await eventually(hub.client, SECRETS, token_secret_key(brief.id), is_gone)
        await hub.signed_for(lasting)
    assert await hub.client.find(SECRETS, token_secret_key(lasting.id)) is not None


async def test_a_changed_cluster_info_is_signed_again_but_a_foreign_one_is_not(hub: DiscoverableHub) -> None:
    token = await hub.has_token()
    other_ca = Authority.make("other", now=datetime.now(UTC)).certificate
    async with hub.controllers():
        before = await hub.signed_for(token)
        moved = ClusterInfo((hub.plane.server, "https://second:6443"), hub.info.authorities)
        await apply_manifests(hub.client, discovery_manifests(DiscoverySetup(moved)), manager=FIELD_MANAGER)
        name = f"jws-kubeconfig-{token.id}"
        await eventually(
            hub.client,
            CONFIG_MAPS,
            CLUSTER_INFO,
            lambda o: o is not None and o["data"].get(name) not in (None, before["data"][name]),
        )
        foreign = write_cluster_info(ClusterInfo((hub.plane.server,), (other_ca,)))
        await hub.client.patch(CONFIG_MAPS, CLUSTER_INFO, {"data": {"kubeconfig": foreign}})
        refused = await hub.signed_for()
    assert "not this cluster's own" in refused["metadata"]["annotations"]["watchword.dev/signing-refused"]


async def test_setting_up_again_changes_nothing_and_keeps_signatures(hub: DiscoverableHub) -> None:
    token = await hub.has_token()
    async with hub.controllers():
        before = await hub.signed_for(token)
    await apply_manifests(hub.client, discovery_manifests(DiscoverySetup(hub.info)), manager=FIELD_MANAGER)
    after = await hub.client.get(CONFIG_MAPS, CLUSTER_INFO)
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    assert after["data"] == before["data"]


async def test_a_token_id_is_given_once(hub: DiscoverableHub) -> None:
    token = await hub.has_token()
    with pytest.raises(BootstrapTokenRefused) as refusal:
        await hub.has_token(token=token)
    assert refusal.value.reason == DiscoveryReason.TOKEN_EXISTS
    await TokenStore(hub.client).delete(token.id)
    with pytest.raises(BootstrapTokenRefused, match="no token"):
        await TokenStore(hub.client).delete(token.id)


@pytest.mark.planes("kube-apiserver")
async def test_our_signatures_are_those_of_kube_controller_manager_to_the_byte(hub: DiscoverableHub) -> None:
    tokens = [await hub.has_token() for _ in range(5)]
    await hub.has_token(usages=(TokenUsage.AUTHENTICATION,))
    await hub.plane.controllers("bootstrap-signer-controller")
    signed = await hub.signed_for(*tokens)
    secrets = (await hub.client.list(SECRETS, namespace="kube-system")).items
    pins = frozenset(c.pin for c in split_bundle(hub.plane.ca_pem))
    verdict = decide_signatures(signed, secrets, own_pins=pins, now=hub.plane.clock.now())
    assert (verdict.data, verdict.annotation) == ({}, None)
    found = await ClusterDiscovery(hub.client_factory).by_token(
        BootstrapTokenDiscovery(hub.plane.server, tokens[0], hub.info.pins)
    )
    assert found == hub.info


async def test_a_discovery_document_is_refreshed_through_its_own_authority(hub: DiscoverableHub) -> None:
    moved = replace(hub.info, endpoints=(hub.plane.server, "https://second:6443"))
    await apply_manifests(hub.client, discovery_manifests(DiscoverySetup(moved)), manager=FIELD_MANAGER)
    assert await ClusterDiscovery(hub.client_factory).by_document(write_cluster_info(hub.info).encode()) == moved
    await hub.client.delete(CONFIG_MAPS, CLUSTER_INFO)
    with pytest.raises(NotFound):
        await hub.client.get(CONFIG_MAPS, CLUSTER_INFO)
    assert await ClusterDiscovery(hub.client_factory).by_document(write_cluster_info(hub.info).encode()) == hub.info
