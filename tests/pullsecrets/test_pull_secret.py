"""Whose a pull secret is, read from what its writer says and from who owns it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec
import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.credentials.lifecycle import BoundToken
from watchword.pullsecrets.account_plan import AccountPlan, choose_secret_name, decide_account
from watchword.pullsecrets.pull_secret import Credentials, PullSecret, default_secret_name

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
REFERENCE = "openshift.io/internal-registry-pull-secret-ref"
CORRECT = "openshift.io/internal-registry-auth-token.service-account"
MISSPELT = "openshift.io/internal-registry-auth-token.service-acount"


def a_secret(name: str, *, key: str = CORRECT, account: str = "builder", owner: str = "uid-1") -> Object:
    owners = [{"apiVersion": "v1", "kind": "ServiceAccount", "name": account, "uid": owner}] if owner else []
    return {
        "metadata": {
            "namespace": "team",
            "name": name,
            "uid": f"uid-of-{name}",
            "resourceVersion": "1",
            "creationTimestamp": "2026-03-01T12:00:00Z",
            "annotations": {key: account},
            "ownerReferences": owners,
        },
        "type": "kubernetes.io/dockercfg",
    }


def an_account(reference: str = "", **fields: object) -> Object:
    annotations = {REFERENCE: reference} if reference else {}
    metadata = {"namespace": "team", "name": "builder", "uid": "uid-1", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata, **fields}


def read(*secrets: Object) -> list[PullSecret]:
    return [found for secret in secrets if (found := PullSecret.read(secret)) is not None]


@pytest.mark.parametrize("key", [CORRECT, MISSPELT])
def test_either_spelling_names_the_account(key: str) -> None:
    (found,) = read(a_secret("one", key=key))

    assert found.account_key == ObjectKey("team", "builder")
    assert found.owner_uid == "uid-1"


@pytest.mark.parametrize(
    ("account", "secrets", "expected"),
    [
        pytest.param(an_account("chosen"), [], "chosen", id="the annotation names a secret to be made"),
        pytest.param(an_account("UPPER/../x"), [], "", id="the annotation is no name"),
        pytest.param(an_account("other"), [a_secret("other", owner="uid-0")], "", id="another account's secret"),
        pytest.param(an_account(), [a_secret("found")], "found", id="found again by its owner"),
        pytest.param(an_account(), [a_secret("b"), a_secret("a")], "a", id="two of them"),
        pytest.param(an_account(), [], "", id="none yet"),
    ],
)
def test_name_of_a_pull_secret(account: Object, secrets: list[Object], expected: str) -> None:
    default = default_secret_name(ObjectKey("team", "builder"), "uid-1")

    assert choose_secret_name(account, read(*secrets)) == (expected or default)


def test_names_of_long_accounts_differ_and_fit() -> None:
    accounts = [ObjectKey("team", "a" * 253), ObjectKey("team", "a" * 252 + "b")]

    names = {default_secret_name(account, f"uid-{number}") for number, account in enumerate(accounts)}

    assert len(names) == 2
    assert all(len(name) <= 253 for name in names)


def test_second_secret_of_an_account_is_removed_and_unlisted() -> None:
    account = an_account("a", imagePullSecrets=[{"name": "b"}, {"name": "quay"}])

    plan = decide_account(account, read(a_secret("a"), a_secret("b")), selected=True, now=NOW + timedelta(hours=1))

    assert [secret.key.name for secret in plan.remove] == ["b"]
    assert plan.changes == {"imagePullSecrets": [{"name": "quay"}]}


def test_account_that_is_as_it_should_be_needs_nothing() -> None:
    secret = {**a_secret("a"), "content": _filled()}

    plan = decide_account(an_account("a", imagePullSecrets=[{"name": "a"}]), read(secret), selected=True, now=NOW)

    assert plan == AccountPlan()


def _filled() -> Object:
    token = BoundToken("x", "x", NOW, NOW + timedelta(hours=1), secret_uid="x")
    filled: Object = msgspec.to_builtins(Credentials(("r",), token))
    return filled
