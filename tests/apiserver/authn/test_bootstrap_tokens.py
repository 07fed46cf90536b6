"""Every way in which a bootstrap token can be wrong, row by row, and the few in which it is right."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from watchword.api.meta import Object
from watchword.apiserver.access.bootstrap_tokens import decide_bootstrap_user
from watchword.apiserver.serving.model import User

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)
GOOD = {
    "token-id": "abcdef",
    "token-secret": "0123456789abcdef",
    "usage-bootstrap-authentication": "true",
    "expiration": "2026-01-02T12:00:01Z",
    "auth-extra-groups": "system:bootstrappers:kubeadm:default-node-token",
}


def _secret(*, type_: str = "bootstrap.kubernetes.io/token", metadata: Object | None = None, **changes: str) -> Object:
    values = {**GOOD, **{key.replace("_", "-"): value for key, value in changes.items()}}
    data = {key: base64.b64encode(value.encode()).decode() for key, value in values.items() if value != "ABSENT"}
    return {"type": type_, "metadata": metadata or {}, "data": data}


def _decide_user(secret: Object, *, token_id: str = "abcdef", shown: str = "0123456789abcdef") -> User | None:
    return decide_bootstrap_user(token_id, shown, secret, now=NOW)


@pytest.mark.parametrize(
    "secret",
    [
        pytest.param(_secret(type_="Opaque"), id="wrong type"),
        pytest.param(_secret(type_=""), id="no type"),
        pytest.param(_secret(metadata={"deletionTimestamp": "2026-01-02T12:00:00Z"}), id="being deleted"),
        pytest.param({"type": "bootstrap.kubernetes.io/token", "metadata": {}}, id="no data"),
        pytest.param(_secret(token_secret="0123456789abcdeX"), id="another secret"),
        pytest.param(_secret(token_secret="ABSENT"), id="no secret"),
        pytest.param(_secret(token_id="abcdeg"), id="id does not match the name"),
        pytest.param(_secret(token_id="ABSENT"), id="no id"),
        pytest.param(_secret(expiration="2026-01-02T12:00:00Z"), id="expires this very second"),
        pytest.param(_secret(expiration="2026-01-01T00:00:00Z"), id="expired, not yet cleaned"),
        pytest.param(_secret(expiration="tomorrow"), id="unreadable expiration"),
        pytest.param(_secret(expiration="2026-01-03"), id="date without time"),
        pytest.param(_secret(usage_bootstrap_authentication="ABSENT"), id="no usage"),
        pytest.param(_secret(usage_bootstrap_authentication="True"), id="usage True"),
        pytest.param(_secret(usage_bootstrap_authentication="1"), id="usage 1"),
        pytest.param(_secret(auth_extra_groups="system:masters"), id="group without the prefix"),
        pytest.param(_secret(auth_extra_groups="system:bootstrappers:a,"), id="an empty group"),
        pytest.param(_secret(auth_extra_groups="system:bootstrappers:a, system:bootstrappers:b"), id="a space"),
        pytest.param(_secret(auth_extra_groups="system:bootstrappers:a\n"), id="a newline"),
        pytest.param(_secret(auth_extra_groups="system:bootstrappers:Foo"), id="an upper-case group"),
        pytest.param(_secret(auth_groups="system:masters"), id="seed spelling, group without the prefix"),
    ],
)
def test_token_is_refused(secret: Object) -> None:
    assert _decide_user(secret) is None


@pytest.mark.parametrize(
    ("secret", "groups"),
    [
        pytest.param(
            _secret(),
            ("system:bootstrappers", "system:bootstrappers:kubeadm:default-node-token"),
            id="a second before expiry",
        ),
        pytest.param(
            _secret(expiration="ABSENT", auth_extra_groups="ABSENT"), ("system:bootstrappers",), id="never expires"
        ),
        pytest.param(_secret(expiration="", auth_extra_groups=""), ("system:bootstrappers",), id="empty values"),
        pytest.param(
            _secret(auth_extra_groups="system:bootstrappers:b", auth_groups="system:bootstrappers:a"),
            ("system:bootstrappers", "system:bootstrappers:a", "system:bootstrappers:b"),
            id="both spellings",
        ),
        pytest.param(
            _secret(auth_extra_groups="system:bootstrappers:b,system:bootstrappers:b"),
            ("system:bootstrappers", "system:bootstrappers:b"),
            id="each group once",
        ),
    ],
)
def test_valid_token_is_accepted(secret: Object, groups: tuple[str, ...]) -> None:
    assert _decide_user(secret) == User("system:bootstrap:abcdef", groups=groups)
