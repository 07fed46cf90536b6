"""What the legacy controller made is marked, and deleted in pairs."""

from __future__ import annotations

from tests.helpers.events import is_told
from tests.pullsecrets.harness import PullSecretHarness, claims_of, content_of, is_filled

from watchword.api.meta import Object, ObjectKey, annotations_of, finalizers_of, labels_of, uid_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT_NAME,
    ANNOTATION_BINDING,
    ANNOTATION_PULL_SECRET,
    LEGACY_TOKEN,
)
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.testing.eventually import eventually, is_gone


def is_labelled(token: Object | None) -> bool:
    return labels_of(token or {}).get(LEGACY_TOKEN) == "true"


def is_marked(secret: Object | None) -> bool:
    marked = annotations_of(secret or {}).get(ANNOTATION_BINDING) == "legacy"
    return marked and LEGACY_TOKEN in finalizers_of(secret or {})


async def test_legacy_pair_is_marked_and_kept(cluster: PullSecretHarness) -> None:
    token, before = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()

    after = await cluster.secret(before["metadata"]["name"], is_marked)
    labelled = await cluster.secret(token["metadata"]["name"], is_labelled)

    assert after["data"] == before["data"]
    assert uid_of(labelled) == uid_of(token)


async def test_account_refers_to_its_legacy_pull_secret_and_mounts_only_the_token(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()

    account = await eventually(
        cluster.client,
        SERVICE_ACCOUNTS,
        cluster.key("builder"),
        lambda obj: annotations_of(obj or {}).get(ANNOTATION_PULL_SECRET) == secret["metadata"]["name"],
    )

    assert account["imagePullSecrets"] == [{"name": secret["metadata"]["name"]}]
    assert account["secrets"] == [{"name": token["metadata"]["name"]}]


async def test_nothing_is_written_to_a_legacy_pair_twice(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()
    await _is_adopted(cluster, secret)
    await cluster.secret(token["metadata"]["name"], is_labelled)
    await cluster.stop()
    cluster.written.clear()

    cluster.start()
    await cluster.account("second")
    await cluster.listed("second")

    assert cluster.writes_to("builder") == []


async def test_deleted_legacy_pull_secret_takes_its_token_along(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()
    await _is_adopted(cluster, secret)

    await cluster.client.delete(SECRETS, ObjectKey.of(secret))

    await eventually(cluster.client, SECRETS, ObjectKey.of(token), is_gone)
    await is_told(cluster.client, token["metadata"]["name"], "LegacyTokenRemoved")
    await _is_bound(cluster, secret)


async def test_deleted_legacy_token_takes_its_pull_secret_along(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()
    await _is_adopted(cluster, secret)

    await cluster.client.delete(SECRETS, ObjectKey.of(token))

    await _is_bound(cluster, secret)


async def test_legacy_pull_secret_without_owner_follows_its_token(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    await cluster.client.patch(SECRETS, ObjectKey.of(secret), {"metadata": {"ownerReferences": None}})
    cluster.start()
    await _is_adopted(cluster, secret)

    await cluster.client.delete(SECRETS, ObjectKey.of(token))

    await _is_bound(cluster, secret)
    await is_told(cluster.client, secret["metadata"]["name"], "PullSecretRemoved")


async def test_token_secret_of_another_account_is_never_deleted(cluster: PullSecretHarness) -> None:
    token, _ = await cluster.legacy_pair(await cluster.account("admin"))
    _, secret = await cluster.legacy_pair(await cluster.account("builder"))
    stolen = {"metadata": {"annotations": {"openshift.io/token-secret.name": token["metadata"]["name"]}}}
    await cluster.client.patch(SECRETS, ObjectKey.of(secret), stolen)
    cluster.start()
    await _is_adopted(cluster, secret)

    await cluster.client.delete(SECRETS, ObjectKey.of(secret))

    await _is_bound(cluster, secret)
    assert uid_of(await cluster.client.get(SECRETS, ObjectKey.of(token))) == uid_of(token)


async def test_switching_off_takes_the_finalizer_away(cluster: PullSecretHarness) -> None:
    token, secret = await cluster.legacy_pair(await cluster.account("builder"))
    cluster.start()
    await _is_adopted(cluster, secret)

    await cluster.configure(enabled="false")

    await cluster.secret(secret["metadata"]["name"], lambda s: s is not None and not finalizers_of(s))
    await cluster.secret(token["metadata"]["name"], lambda s: LEGACY_TOKEN not in labels_of(s or {}))
    assert uid_of(await cluster.client.get(SECRETS, ObjectKey.of(token))) == uid_of(token)


async def _is_adopted(cluster: PullSecretHarness, secret: Object) -> None:
    """Wait until a legacy pull secret is marked and its account refers to it."""
    name = secret["metadata"]["name"]
    await cluster.secret(name, is_marked)
    await eventually(
        cluster.client,
        SERVICE_ACCOUNTS,
        cluster.key(annotations_of(secret)[ANNOTATION_ACCOUNT_NAME]),
        lambda obj: annotations_of(obj or {}).get(ANNOTATION_PULL_SECRET) == name,
    )


async def _is_bound(cluster: PullSecretHarness, legacy: Object) -> None:
    """Wait until a bound pull secret has taken the name of a legacy one."""
    bound = await cluster.secret(
        legacy["metadata"]["name"],
        lambda s: s is not None and uid_of(s) != uid_of(legacy) and is_filled(s),
    )
    assert claims_of(bound)["kubernetes.io"]["secret"]["uid"] == uid_of(bound)
    assert all(set(row) == {"auth"} for row in content_of(bound).values())
