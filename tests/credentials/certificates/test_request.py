"""The same key and spec make the same request, and another one is not taken for it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.credentials.certificates.requests import (
    CertificateSpec,
    certificate_request_manifest,
    choose_request_name,
    is_same_request,
)
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject

KEY, OTHER = PrivateKey.generate(), PrivateKey.generate()
WISH = CertificateSpec(CertificateSubject("system:a:b", ("system:a", "system:c")), lifetime=timedelta(hours=1))


def test_same_specification_with_the_same_key_is_the_same_request() -> None:
    assert choose_request_name(WISH, KEY) == choose_request_name(WISH, KEY)
    others = [
        choose_request_name(WISH, OTHER),
        choose_request_name(replace(WISH, signer="x"), KEY),
        choose_request_name(replace(WISH, subject=CertificateSubject("x")), KEY),
        choose_request_name(replace(WISH, lifetime=None), KEY),
    ]
    assert len({choose_request_name(WISH, KEY), *others}) == 5
    assert is_same_request(certificate_request_manifest(WISH, KEY), certificate_request_manifest(WISH, KEY))


def _changed(**spec: Any) -> Callable[[], Object]:
    return lambda: {
        **certificate_request_manifest(WISH, KEY),
        "spec": {**certificate_request_manifest(WISH, KEY)["spec"], **spec},
    }


@pytest.mark.parametrize(
    "foreign",
    [
        pytest.param(lambda: certificate_request_manifest(WISH, OTHER), id="another key"),
        pytest.param(
            lambda: certificate_request_manifest(replace(WISH, subject=CertificateSubject("x")), KEY), id="another name"
        ),
        pytest.param(_changed(usages=["server auth"]), id="other usages"),
        pytest.param(_changed(signerName="x"), id="another signer"),
        pytest.param(_changed(request="nonsense"), id="nonsense"),
        pytest.param(dict, id="nothing"),
    ],
)
def test_a_request_that_differs_is_not_taken_for_ours(foreign: Callable[[], Object]) -> None:
    assert not is_same_request(foreign(), certificate_request_manifest(WISH, KEY))


def test_rsa_keys_ask_for_encipherment_as_well() -> None:
    assert "key encipherment" in certificate_request_manifest(WISH, PrivateKey.generate_rsa())["spec"]["usages"]
    assert "key encipherment" not in certificate_request_manifest(WISH, KEY)["spec"]["usages"]
