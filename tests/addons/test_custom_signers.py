"""Certificates by an add-on's own signers: any number of them, each with exactly the declared subject."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import timedelta

import pytest
from tests.addons.fleet import AddonFleet, decoded
from tests.helpers.events import is_told
from tests.helpers.fleet import lifetime_settings

from watchword.addons.definition import AddonDefinition, Signer
from watchword.api.credential_report import parse_validity
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE, ConditionType, Label
from watchword.api.resources import (
    ADDON_TEMPLATES,
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_MANAGEMENT_ADDONS,
    MANAGED_CLUSTER_ADDONS,
    SECRETS,
)
from watchword.credentials.certificates.agent import request_manifest
from watchword.credentials.driver import CredentialSubject, WantedCredential
from watchword.pki.authority import Authority
from watchword.pki.certificates import parse_certificate
from watchword.pki.keys import PrivateKey
from watchword.testing.builders import a_secret, an_addon
from watchword.testing.eventually import eventually

SIGNS_FOR_ADDONS = {Label.KEY_PURPOSE: "addon-signing"}
ONE, TWO = "example.com/one", "example.com/two"


def custom(signer: str, authority: str, user: str, *groups: str) -> Object:
    subject = {"user": user, "groups": list(groups)}
    return {
        "type": "CustomSigner",
        "customSigner": {"signerName": signer, "subject": subject, "signingCA": {"name": authority}},
    }


class Signed:
    """An add-on with two signers of its own."""

    def __init__(self, fleet: AddonFleet, cluster: str, key: ObjectKey, authority: Authority) -> None:
        self.fleet, self.cluster, self.key, self.authority = fleet, cluster, key, authority

    async def certificate(
        self, signer: str, is_so: Callable[[dict[str, bytes]], bool] = lambda _: True, *, within: float = 30.0
    ) -> tuple[dict[str, bytes], str, tuple[str, ...]]:
        name = f"{self.key.name}-{signer.replace('/', '-')}-client-cert"
        secret = await eventually(
            self.fleet.client,
            SECRETS,
            ObjectKey(self.fleet.namespace, name),
            lambda obj: "tls.crt" in decoded(obj or {}) and is_so(decoded(obj or {})),
            within=within,
        )
        data = decoded(secret)
        found = parse_certificate(data["tls.crt"])
        return data, found.common_name, found.organisations

    async def ask(
        self, subject: CredentialSubject, *, cluster: str = "", as_user: str = "", signer: str = ONE
    ) -> ObjectKey:
        """Ask for a certificate as an agent of a cluster, this one by default."""
        who = as_user or self.cluster
        wanted = WantedCredential(cluster or self.cluster, subject, addon=self.key.name, signer=signer)
        groups = [f"system:open-cluster-management:{who}", *(["system:masters"] if as_user else [])]
        agent = self.fleet.plane.client(f"system:open-cluster-management:{who}:x", groups)
        made = await agent.create(CERTIFICATE_SIGNING_REQUESTS, request_manifest(wanted, PrivateKey.generate()))
        return ObjectKey.of(made)


@pytest.fixture
async def signed(addon_fleet: AddonFleet) -> Signed:
    client, name = addon_fleet.client, f"signed{addon_fleet.mark}"
    cluster = await addon_fleet.cluster(auth="csr", settings=lifetime_settings(certificate=timedelta(hours=1)))
    authority = Authority.make("add-on", now=addon_fleet.plane.clock.now())
    data = {"tls.crt": authority.certificate.pem, "tls.key": authority.key.pem.reveal()}
    await client.create(SECRETS, a_secret(name, namespace=HUB_NAMESPACE, data=data, labels=SIGNS_FOR_ADDONS))
    spec = {
        "addonName": name,
        "agentSpec": {"workload": {"manifests": []}},
        "registration": [custom(ONE, name, "one-{{CLUSTER_NAME}}", "example:one"), custom(TWO, name, "two-client")],
    }
    await client.create(ADDON_TEMPLATES, ADDON_TEMPLATES.manifest(ObjectKey.cluster(name), spec=spec))
    configs = [{"group": ADDON_TEMPLATES.group, "resource": ADDON_TEMPLATES.plural, "name": name}]
    known = CLUSTER_MANAGEMENT_ADDONS.manifest(ObjectKey.cluster(name), spec={"defaultConfigs": configs})
    await client.create(CLUSTER_MANAGEMENT_ADDONS, known)
    addon = an_addon(
        name,
        cluster=cluster,
        annotations={"addon.open-cluster-management.io/v1alpha1-install-namespace": addon_fleet.namespace},
    )
    await client.create(MANAGED_CLUSTER_ADDONS, addon)
    return Signed(addon_fleet, cluster, ObjectKey(cluster, name), authority)


async def test_each_signer_has_its_secret_and_subject(signed: Signed) -> None:
    data, user, groups = await signed.certificate(ONE)
    _, other, none = await signed.certificate(TWO)

    assert (user, groups) == (f"one-{signed.cluster}", ("example:one",))
    assert (other, none) == ("two-client", ())
    assert set(data) == {"cluster-name", "tls.crt", "tls.key"}
    said = await signed.fleet.says(signed.key, ConditionType.CERTIFICATE_ROTATED)
    assert said.message.count("client certificate valid") == 2


@pytest.mark.planes("embedded")  # in real time it would take minutes
async def test_certificate_that_waits_is_reported_beside_the_one_that_is_issued(addon_fleet: AddonFleet) -> None:
    cluster = await addon_fleet.cluster(auth="csr")
    addon_fleet.start_addon(
        AddonDefinition("reporter", signers=(Signer(ONE),), install_namespace=addon_fleet.namespace)
    )  # no program signs for it
    key = await addon_fleet.enable("reporter", cluster, {"type": "kubeClient"}, a_signer_row(ONE))

    early = await addon_fleet.says(key, ConditionType.CERTIFICATE_ROTATED)
    assert parse_validity(early.message) is not None
    late = await addon_fleet.says(key, ConditionType.CERTIFICATE_ROTATED, "False", "AwaitingCertificate", within=300)
    assert late.message.startswith(f"{ONE}: the request is approved, and waits for signer {ONE}")
    assert parse_validity(late.message) == parse_validity(early.message)
    last = await addon_fleet.says(key, ConditionType.CERTIFICATE_ROTATED, "False", "CertificateNotIssued", within=1800)
    assert f"does the controller of signer {ONE} run?" in last.message


def a_signer_row(signer: str) -> Object:
    return {"type": "customSigner", "customSigner": {"signerName": signer}}


@pytest.mark.planes("embedded")  # in real time it would take most of an hour
@pytest.mark.parametrize("signer", [ONE, TWO])
async def test_certificate_of_a_signer_is_renewed_in_time(signed: Signed, signer: str) -> None:
    first, user, groups = await signed.certificate(signer)
    end = parse_certificate(first["tls.crt"]).not_after

    second, same, too = await signed.certificate(signer, lambda data: data["tls.crt"] != first["tls.crt"], within=3600)

    assert signed.fleet.plane.clock.now() < end
    assert (same, too) == (user, groups)
    assert second["tls.key"] != first["tls.key"]


@pytest.mark.parametrize(
    ("subject", "as_user"),
    [
        pytest.param(CredentialSubject("admin", ("example:one",)), "", id="another user"),
        pytest.param(CredentialSubject("one-{c}", ("example:one", "system:masters")), "", id="one group more"),
        pytest.param(CredentialSubject("one-{c}"), "", id="one group less"),
        pytest.param(CredentialSubject("one-other", ("example:one",)), "", id="another cluster's subject"),
        pytest.param(
            CredentialSubject("one-{c}", ("example:one",)), "{c}0", id="agent of a cluster whose name begins alike"
        ),
    ],
)
async def test_any_other_subject_is_never_signed(signed: Signed, subject: CredentialSubject, as_user: str) -> None:
    right = CredentialSubject(subject.user.replace("{c}", signed.cluster), subject.groups)
    hostile = await signed.ask(right, as_user=as_user.replace("{c}", signed.cluster))
    approved = await signed.ask(CredentialSubject(f"one-{signed.cluster}", ("example:one",)))

    await eventually(signed.fleet.client, CERTIFICATE_SIGNING_REQUESTS, approved, _is_signed)
    refused = await signed.fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, hostile)
    assert refused.get("status") in ({}, None)


async def test_authority_that_cannot_be_read_is_told(signed: Signed) -> None:
    await signed.certificate(ONE)
    await signed.fleet.client.delete(SECRETS, ObjectKey(HUB_NAMESPACE, signed.key.name))

    request = await signed.ask(CredentialSubject(f"one-{signed.cluster}", ("example:one",)))

    await is_told(signed.fleet.client, request.name, "SigningAuthorityUnusable")


async def test_approval_by_hand_does_not_make_another_subject_right(signed: Signed) -> None:
    key = await signed.ask(CredentialSubject("admin"))
    csr = await signed.fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, key)
    row = {"type": "Approved", "status": "True", "reason": "ByHand", "message": "oops"}
    approval = {**csr, "status": {"conditions": [row]}}
    await signed.fleet.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")

    later = await signed.ask(CredentialSubject(f"one-{signed.cluster}", ("example:one",)))
    await eventually(signed.fleet.client, CERTIFICATE_SIGNING_REQUESTS, later, _is_signed)

    assert not _is_signed(await signed.fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, key))


def _is_signed(csr: Object | None) -> bool:
    return bool(base64.b64decode(((csr or {}).get("status") or {}).get("certificate") or ""))
