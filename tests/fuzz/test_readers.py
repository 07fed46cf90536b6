"""No reader of an object raises anything but its documented error, whatever another writer put into the object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conftest import bounded
from tests.fuzz.hostile_objects import KINDS, NOW, ODD, READERS, draw_metadata, draw_object

from watchword.addons.token.driver import token_lifetime
from watchword.api.accounts import AccountSecret
from watchword.api.meta import Object
from watchword.api.validation import DurationError, parse_duration, parse_seconds
from watchword.credentials.certificates.agent import certificate_lifetime
from watchword.discovery.token_secret import read_expiration, read_token_secret
from watchword.registration.hub.cluster_lease import renewal_time
from watchword.registration.hub.cluster_rbac import lease_end
from watchword.runtime.leader_election import ElectionTiming, ObservedLease, build_held_lease


@pytest.mark.parametrize("kind", READERS)
@bounded
@given(seed=st.integers(0, 2**32))
def test_object_of_any_content_is_read(kind: str, seed: int) -> None:
    READERS[kind](draw_object(kind, Random(seed)))


@bounded
@given(seed=st.integers(0, 2**32))
def test_secret_of_any_content_is_read(seed: int) -> None:
    random = Random(seed)
    names = ["token", "ca.crt", "token-id", "token-secret", "expiration"]
    data = {name: random.choice(ODD) for name in names}
    secret = {"metadata": draw_metadata(random), "type": "bootstrap.kubernetes.io/token", "data": data}

    account = AccountSecret.read(secret)
    assert account.expires_at is None or account.expires_at.year <= 9000
    read_expiration(secret)
    read_token_secret(secret)


@bounded
@given(seed=st.integers(0, 2**32))
def test_lease_of_any_content_is_read(seed: int) -> None:
    random = Random(seed)
    names = ["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"]
    lease = {"metadata": draw_metadata(random), "spec": {name: random.choice(ODD) for name in names}}

    lease_end(lease)
    renewal_time(lease)
    ObservedLease(lease, 0.0).is_free(1.0)
    held = build_held_lease(lease, identity="one", timing=ElectionTiming(), now=NOW)
    assert 0 <= held["spec"]["leaseTransitions"] < 2**31


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_lifetime_of_any_size_can_be_computed_with(value: Any) -> None:
    token = token_lifetime({"--addon-token-expiration-seconds": str(value)})
    certificate = certificate_lifetime({"--client-cert-expiration-seconds": str(value)})

    assert NOW + token * 5 + (certificate or token) + (parse_seconds(value) or token) > NOW
    with suppress(DurationError):
        assert NOW + parse_duration(str(value)) > NOW - timedelta(days=1)


def nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    yield path, schema
    for name, node in (schema.get("properties") or {}).items():
        yield from nodes(node, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from nodes(schema[name], f"{path}[]")


def all_nodes() -> Iterable[tuple[str, Object]]:
    for kind, crd in KINDS.items():
        for version in crd["spec"]["versions"]:
            yield from nodes(version["schema"]["openAPIV3Schema"], kind)


def test_every_field_of_every_kind_is_bounded() -> None:
    needs = {"integer": ("minimum", "maximum"), "string": ("maxLength", "enum", "format"), "array": ("maxItems",)}

    unbounded = [
        path
        for path, node in all_nodes()
        if node.get("type") in needs and not any(name in node for name in needs[node["type"]])
    ]

    # What a work reports of any object is any int64, and no reader of ours calculates with it.
    assert {path for path in unbounded if not path.endswith("fieldValue.integer")} == set()
