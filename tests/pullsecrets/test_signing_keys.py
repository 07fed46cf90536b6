"""Which keys a signing key Secret declares."""

from __future__ import annotations

import base64

from watchword.pki import keys as pem
from watchword.pki.keys import PrivateKey
from watchword.pullsecrets.process import project_signing_key, read_key_ids


def test_key_ids_are_those_of_kubernetes_whatever_the_label_of_the_block_says() -> None:
    first, second = PrivateKey.generate_rsa().public, PrivateKey.generate().public
    text = pem.armour(first.spki, "RSA PUBLIC KEY") + pem.armour(second.spki, "PUBLIC KEY")

    assert read_key_ids(base64.b64encode(text).decode()) == {first.key_id, second.key_id}


def test_unreadable_keys_are_no_keys() -> None:
    assert read_key_ids("***") == frozenset()


def test_private_key_never_enters_the_cache() -> None:
    key = PrivateKey.generate()
    data = {
        "service-account.pub": base64.b64encode(key.public.pem).decode(),
        "service-account.key": base64.b64encode(key.pem.reveal()).decode(),
    }

    kept = project_signing_key({"metadata": {"name": "key"}, "data": data})

    assert kept["keyIds"] == [key.public.key_id]
    assert data["service-account.key"] not in str(kept)
