"""Every way in which a request can differ from an honest one is refused."""

from __future__ import annotations

import base64
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.api.names import KUBE_CLIENT_SIGNER, Label, agent_user, cluster_group
from watchword.credentials.certificates.requests import CertificateRequestRefused, is_agent_of, read_cluster_request
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject

KEY = PrivateKey.generate()
FLEET = "system:open-cluster-management:managed-clusters"
NO_NAMES = AlternativeNames()


class Draft(Struct, frozen=True):
    label: str = "prod"
    common_name: str = agent_user("prod", "agent1")
    organisations: tuple[str, ...] = (cluster_group("prod"), FLEET)
    names: AlternativeNames = NO_NAMES
    usages: tuple[str, ...] = ("digital signature", "key encipherment", "client auth")
    signer: str = KUBE_CLIENT_SIGNER
    username: str = "system:bootstrap:abcdef"
    body: bytes | None = None

    def manifest(self) -> Object:
        body = self.body
        if body is None:
            body = build_csr(KEY, CertificateSubject(self.common_name, self.organisations), self.names)
        return {
            "metadata": {"name": "x", "labels": {Label.CLUSTER_NAME: self.label}},
            "spec": {
                "request": base64.b64encode(body).decode(),
                "signerName": self.signer,
                "usages": list(self.usages),
                "username": self.username,
            },
        }


HONEST = Draft()


@pytest.mark.parametrize(
    "draft",
    [
        pytest.param(replace(HONEST, label="prod-2"), id="label names a cluster whose name begins alike"),
        pytest.param(replace(HONEST, label="harmless"), id="label and subject name different clusters"),
        pytest.param(replace(HONEST, label="kube-system"), id="label names a namespace of the hub"),
        pytest.param(replace(HONEST, label=""), id="no label"),
        pytest.param(replace(HONEST, label="prod\n"), id="trailing newline"),
        pytest.param(replace(HONEST, common_name=agent_user("prod-2", "agent1")), id="subject of another cluster"),
        pytest.param(replace(HONEST, common_name=agent_user("prod", "a:b")), id="a colon smuggled into the agent"),
        pytest.param(replace(HONEST, common_name=agent_user("prod", "")), id="no agent"),
        pytest.param(replace(HONEST, common_name="system:admin"), id="another user altogether"),
        pytest.param(replace(HONEST, organisations=(cluster_group("prod"), "system:masters")), id="a foreign group"),
        pytest.param(replace(HONEST, organisations=(cluster_group("prod-2"), FLEET)), id="group of another cluster"),
        pytest.param(replace(HONEST, organisations=(FLEET,)), id="only the fleet's group"),
        pytest.param(replace(HONEST, organisations=()), id="no group"),
        pytest.param(replace(HONEST, names=AlternativeNames(dns=("hub.example.com",))), id="a DNS name"),
        pytest.param(replace(HONEST, names=AlternativeNames(ips=("127.0.0.1",))), id="an address"),
        pytest.param(replace(HONEST, usages=("digital signature", "server auth")), id="for a server"),
        pytest.param(replace(HONEST, usages=(*HONEST.usages, "server auth")), id="for a server as well"),
        pytest.param(replace(HONEST, usages=("cert sign",)), id="for signing"),
        pytest.param(replace(HONEST, signer="example.com/signer"), id="another signer"),
        pytest.param(replace(HONEST, body=b"not a request"), id="no request at all"),
        pytest.param(replace(HONEST, body=b"-----BEGIN CERTIFICATE REQUEST-----\n" * 4000), id="a huge one"),
    ],
)
def test_request_that_differs_from_an_agents_own_is_refused(draft: Draft) -> None:
    with pytest.raises(CertificateRequestRefused):
        read_cluster_request(draft.manifest())


def test_a_weak_key_is_refused() -> None:
    weak = build_csr(PrivateKey.generate_rsa(1024), CertificateSubject(HONEST.common_name, HONEST.organisations))
    with pytest.raises(CertificateRequestRefused, match="RSA key of 1024 bits"):
        read_cluster_request(replace(HONEST, body=weak).manifest())


@pytest.mark.parametrize(
    ("change", "renewal"),
    [
        pytest.param(lambda d: d, False, id="first request with a bootstrap identity"),
        pytest.param(lambda d: replace(d, username=d.common_name), True, id="the agent renews its own"),
        pytest.param(lambda d: replace(d, username=agent_user("prod", "agent2")), False, id="another agent asks"),
        pytest.param(lambda d: replace(d, organisations=(cluster_group("prod"),)), False, id="without fleet group"),
    ],
)
def test_correct_request_is_parsed(change: Callable[[Draft], Draft], renewal: bool) -> None:  # noqa: FBT001 - a column
    request = read_cluster_request(change(HONEST).manifest())
    assert (request.cluster, request.agent, request.is_renewal) == ("prod", "agent1", renewal)


names = st.from_regex(r"[a-z]([-a-z0-9]{0,8}[a-z0-9])?", fullmatch=True)


@settings(max_examples=60)
@given(own=names, other=names, agent=names)
def test_no_cluster_is_ever_taken_for_another(own: str, other: str, agent: str) -> None:
    draft = Draft(label=own, common_name=agent_user(other, agent), organisations=(cluster_group(other), FLEET))
    try:
        request = read_cluster_request(draft.manifest())
    except CertificateRequestRefused:
        return
    assert request.cluster == own == other


@pytest.mark.parametrize(
    ("user", "group", "expected"),
    [
        pytest.param("open-cluster-management:c1:agent", "open-cluster-management:c10", False, id="group of another"),
        pytest.param("open-cluster-management:c10:agent", "open-cluster-management:c1", False, id="user of another"),
        pytest.param("open-cluster-management:c1:agent", "system:authenticated", False, id="no group of a cluster"),
        pytest.param("c1", "system:open-cluster-management:c1", False, id="a bare name in the reserved group"),
        pytest.param("c1", "open-cluster-management:c1", True, id="as OCM names it"),
        pytest.param("open-cluster-management:c1:agent", "open-cluster-management:c1", True, id="access entry"),
        pytest.param("open-cluster-management:c1:agent", "system:open-cluster-management:c1", True, id="aws-auth"),
    ],
)
def test_agent_that_a_cloud_authenticates_is_known_by_user_and_group(user: str, group: str, *, expected: bool) -> None:
    csr = {"spec": {"username": user, "groups": [group]}}

    assert is_agent_of("c1", csr) is expected
