from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.discovery.errors import BootstrapFailed, Reason
from watchword.discovery.issued import IssuedCredential, judge_issued, keep_key
from watchword.discovery.tls_bootstrap import (
    CertificateWish,
    TlsBootstrap,
    choose_request_name,
    is_same_request,
    judge_request,
    write_request,
)
from watchword.kube.client import Client
from watchword.pki.authority import Authority, Leaf, Validity
from watchword.pki.certificates import Certificate
from watchword.pki.errors import KeyRefused
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import Subject
from watchword.pki.usages import SERVING_USAGES
from watchword.testing.memory import MemoryApi

NOW = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
CA, STRANGER = Authority.make("ca", now=NOW), Authority.make("ca", now=NOW)
KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
WHO = Subject("system:a:b", ("system:a", "system:c"))
WISH = CertificateWish(WHO, lifetime=HOUR)


def issue(subject: Subject = WHO, key: PrivateKey = KEY, by: Authority = CA, life: timedelta = HOUR) -> Certificate:
    return by.issue_client(key.public, subject, now=NOW, lifetime=life)


SERVING = CA.issue(Leaf(KEY.public, WHO, Validity(NOW, NOW + HOUR), SERVING_USAGES))
ITSELF = Authority.make("system:a:b", now=NOW, key=KEY).certificate


@pytest.mark.parametrize(
    ("certificate", "complaint"),
    [
        pytest.param(issue(key=OTHER), "another key", id="another key"),
        pytest.param(issue(Subject("system:a:x", WHO.organisations)), "somebody else", id="another name"),
        pytest.param(issue(Subject("system:a:b", ("system:a",))), "somebody else", id="a group is missing"),
        pytest.param(
            issue(Subject("system:a:b", (*WHO.organisations, "system:masters"))), "somebody else", id="a gift"
        ),
        pytest.param(SERVING, "not meant for clients", id="a server's certificate"),
        pytest.param(issue(life=24 * HOUR), "longer than", id="too long a life"),
        pytest.param(issue(by=STRANGER), "no trusted authority", id="another authority"),
        pytest.param(
            CA.issue_client(KEY.public, WHO, now=NOW + HOUR, lifetime=HOUR), "not valid now", id="from later on"
        ),
        pytest.param(
            CA.issue_client(KEY.public, WHO, now=NOW - 3 * HOUR, lifetime=HOUR), "not valid now", id="expired"
        ),
        pytest.param(issue(), "", id="the one asked for"),
    ],
)
def test_judge_issued(certificate: Certificate, complaint: str) -> None:
    issued = IssuedCredential(KEY, (certificate,))
    judged = judge_issued(issued, WHO, now=NOW, roots=(CA.certificate,), lifetime=HOUR)
    assert complaint in judged
    assert bool(judged) == bool(complaint)


def test_an_authoritys_certificate_is_never_a_credential() -> None:
    assert "authority" in judge_issued(IssuedCredential(KEY, (ITSELF,)), Subject("system:a:b"), now=NOW)


def a_request(certificate: bytes = b"", **conditions: str) -> Object:
    rows = [{"type": kind, "status": "True", "message": message} for kind, message in conditions.items()]
    return {"status": {"conditions": rows, "certificate": base64.b64encode(certificate).decode()}}


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        pytest.param(a_request(Denied="no"), Reason.REQUEST_DENIED, id="denied"),
        pytest.param(a_request(b"x", Approved="", Denied="no"), Reason.REQUEST_DENIED, id="denied in the end"),
        pytest.param(a_request(Approved="", Failed="no"), Reason.REQUEST_FAILED, id="failed"),
    ],
)
def test_a_request_that_will_never_be_answered_is_given_up(request_: Object, reason: Reason) -> None:
    with pytest.raises(BootstrapFailed) as refusal:
        judge_request(request_)
    assert refusal.value.reason == reason


@pytest.mark.parametrize("request_", [{}, a_request(), a_request(Approved=""), a_request(b"x")])
def test_a_request_waits_until_it_is_both_approved_and_issued(request_: Object) -> None:
    assert judge_request(request_) is None
    assert judge_request(a_request(b"x", Approved="")) is not None


def test_the_same_wish_with_the_same_key_is_the_same_request() -> None:
    assert choose_request_name(WISH, KEY) == choose_request_name(WISH, KEY)
    others = [
        choose_request_name(WISH, OTHER),
        choose_request_name(replace(WISH, signer="x"), KEY),
        choose_request_name(replace(WISH, subject=Subject("x")), KEY),
        choose_request_name(replace(WISH, lifetime=None), KEY),
    ]
    assert len({choose_request_name(WISH, KEY), *others}) == 5
    assert is_same_request(write_request(WISH, KEY), write_request(WISH, KEY))


def _changed(**spec: Any) -> Callable[[], Object]:
    return lambda: {**write_request(WISH, KEY), "spec": {**write_request(WISH, KEY)["spec"], **spec}}


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(lambda: write_request(WISH, OTHER), id="another key"),
        pytest.param(lambda: write_request(replace(WISH, subject=Subject("x")), KEY), id="another name"),
        pytest.param(_changed(usages=["server auth"]), id="other usages"),
        pytest.param(_changed(signerName="x"), id="another signer"),
        pytest.param(_changed(request="nonsense"), id="nonsense"),
        pytest.param(dict, id="nothing"),
    ],
)
def test_a_request_that_differs_is_not_taken_for_ours(foreign: Callable[[], Object]) -> None:
    assert not is_same_request(foreign(), write_request(WISH, KEY))


def test_rsa_keys_ask_for_encipherment_as_well() -> None:
    assert "key encipherment" in write_request(WISH, PrivateKey.generate_rsa())["spec"]["usages"]
    assert "key encipherment" not in write_request(WISH, KEY)["spec"]["usages"]


class _Clock:
    def now(self) -> datetime:
        return NOW


async def test_a_request_under_our_name_by_somebody_else_is_not_used() -> None:
    api = MemoryApi()
    client = Client.from_handler(api.handle)
    ours = write_request(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**write_request(WISH, OTHER), "metadata": ours["metadata"]})
    with pytest.raises(BootstrapFailed, match="somebody else") as refusal:
        await TlsBootstrap(client, _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == Reason.REQUEST_REFUSED


async def test_a_wrong_certificate_from_the_hub_is_not_used() -> None:
    api = MemoryApi()
    ours = write_request(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**ours, **a_request(issue(key=OTHER).pem, Approved="")})
    with pytest.raises(BootstrapFailed, match="another key") as refusal:
        await TlsBootstrap(Client.from_handler(api.handle), _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == Reason.CERTIFICATE_WRONG


async def test_a_request_that_is_approved_but_never_issued_ends_with_advice() -> None:
    api = MemoryApi()
    ours = write_request(WISH, KEY)
    path = f"/apis/certificates.k8s.io/v1/certificatesigningrequests/{ours['metadata']['name']}"
    api.put(path, {**ours, **a_request(Approved="")})
    with pytest.raises(BootstrapFailed, match="watchword doctor") as refusal:
        await TlsBootstrap(Client.from_handler(api.handle), _Clock()).obtain(WISH, KEY)
    assert refusal.value.reason == Reason.NOT_ISSUED


def test_a_key_is_kept_between_two_tries(tmp_path: Path) -> None:
    path = tmp_path / "state" / "key.pem"
    first = keep_key(path)
    assert keep_key(path).public == first.public
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text("nonsense")
    with pytest.raises(KeyRefused):
        keep_key(path)
