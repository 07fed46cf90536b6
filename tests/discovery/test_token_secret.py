from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object
from watchword.discovery.token_secret import (
    IgnoredSecret,
    TokenRecord,
    TokenUsage,
    read_expiration,
    read_token_secret,
    write_token_secret,
)
from watchword.discovery.tokens import BootstrapToken, BootstrapTokenLimits

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TOKEN = BootstrapToken.parse("x7k2m9.q8w3e5r1t0y6u4i2")
SIGNING, AUTHENTICATION = TokenUsage.SIGNING, TokenUsage.AUTHENTICATION


def a_secret(
    *, name: str = "bootstrap-token-x7k2m9", kind: str = "bootstrap.kubernetes.io/token", **data: str
) -> Object:
    values = {
        "token-id": "x7k2m9",
        "token-secret": "q8w3e5r1t0y6u4i2",
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        **{key.replace("_", "-"): value for key, value in data.items()},
    }
    return {
        "metadata": {"namespace": "kube-system", "name": name, "uid": "u"},
        "type": kind,
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
    }


def test_every_field_survives_the_secret() -> None:
    record = TokenRecord(
        TOKEN,
        usages=(AUTHENTICATION, SIGNING),
        expires=NOW,
        description="for the edge",
        groups=("system:bootstrappers:edge", "system:bootstrappers:a:b"),
        limits=BootstrapTokenLimits(("edge-*",), 3),
    )
    assert read_token_secret(write_token_secret(record)) == record


def test_the_secret_has_the_names_that_kubernetes_reads() -> None:
    secret = write_token_secret(TokenRecord(TOKEN, expires=NOW, groups=("system:bootstrappers:edge",)))
    values = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert (secret["type"], secret["metadata"]["namespace"]) == ("bootstrap.kubernetes.io/token", "kube-system")
    assert secret["metadata"]["name"] == "bootstrap-token-x7k2m9"
    assert values == {
        "token-id": "x7k2m9",
        "token-secret": "q8w3e5r1t0y6u4i2",
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        "expiration": "2026-03-01T12:00:00Z",
        "auth-extra-groups": "system:bootstrappers:edge",
    }


def _deleting() -> Object:
    secret = a_secret()
    secret["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    return secret


def _elsewhere() -> Object:
    secret = a_secret()
    secret["metadata"]["namespace"] = "default"
    return secret


def _garbled() -> Object:
    secret = a_secret()
    secret["data"]["token-secret"] = "%%%"
    return secret


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(a_secret(kind="Opaque"), id="another type"),
        pytest.param(_elsewhere(), id="another namespace"),
        pytest.param(a_secret(name="bootstrap-token-aaaaaa"), id="a name with another id"),
        pytest.param(a_secret(name="x7k2m9"), id="a name without the prefix"),
        pytest.param(a_secret(token_id="aaaaaa"), id="another id inside"),
        pytest.param(a_secret(token_id=""), id="no id"),
        pytest.param(a_secret(token_secret=""), id="no secret"),
        pytest.param(a_secret(token_secret="short"), id="a short secret"),
        pytest.param(a_secret(token_secret="Q8w3e5r1t0y6u4i2"), id="upper case"),
        pytest.param(a_secret(token_secret="q8w3e5r1t0y6u4i2\n"), id="trailing newline"),
        pytest.param(_deleting(), id="being deleted"),
        pytest.param(_garbled(), id="not base64"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_secret_that_does_not_fit_is_ignored(secret: Object) -> None:
    read = read_token_secret(secret)
    assert isinstance(read, IgnoredSecret)
    assert read.why
    assert "q8w3" not in read.why


@pytest.mark.parametrize(
    ("changes", "signs", "authenticates"),
    [
        pytest.param({"usage_bootstrap_signing": "True"}, False, True, id="True is not true"),
        pytest.param({"usage_bootstrap_signing": "1"}, False, True, id="1 is not true"),
        pytest.param({"usage_bootstrap_authentication": ""}, True, False, id="no authentication"),
        pytest.param({"expiration": "2026-03-01T12:00:00Z"}, False, False, id="expires at this very instant"),
        pytest.param({"expiration": "2026-03-01T13:30:00+02:00"}, False, False, id="past, in another zone"),
        pytest.param({"expiration": "tomorrow"}, False, False, id="unreadable expiration"),
        pytest.param({"expiration": "2027-01-01"}, False, False, id="a date alone"),
        pytest.param({"auth_extra_groups": "system:masters"}, True, False, id="a group of power"),
        pytest.param(
            {"auth_extra_groups": "system:bootstrappers:a, system:bootstrappers:b"}, True, False, id="a space"
        ),
        pytest.param({"auth_groups": "system:bootstrappers"}, True, False, id="the bare group"),
        pytest.param({"auth_groups": "system:bootstrappers:a,"}, True, False, id="an empty group"),
        pytest.param({"auth_groups": "system:bootstrappers:a"}, True, True, id="the design's key"),
        pytest.param({"expiration": "2026-03-01T12:00:01Z"}, True, True, id="one second left"),
        pytest.param({}, True, True, id="never expires"),
    ],
)
def test_what_a_token_allows(changes: dict[str, Any], signs: bool, authenticates: bool) -> None:  # noqa: FBT001 - columns
    record = read_token_secret(a_secret(**changes))
    assert isinstance(record, TokenRecord)
    assert (record.allows(SIGNING, NOW), record.allows(AUTHENTICATION, NOW)) == (signs, authenticates)


def test_both_group_keys_are_read() -> None:
    record = read_token_secret(
        a_secret(
            auth_extra_groups="system:bootstrappers:a", auth_groups="system:bootstrappers:b,system:bootstrappers:a"
        )
    )
    assert isinstance(record, TokenRecord)
    assert record.groups == ("system:bootstrappers:a", "system:bootstrappers:b")


def test_an_unreadable_expiration_is_long_past_and_none_is_never() -> None:
    unreadable = read_expiration(a_secret(expiration="soon"))
    assert unreadable is not None
    assert unreadable < NOW - timedelta(days=365)
    assert read_expiration(a_secret()) is None
