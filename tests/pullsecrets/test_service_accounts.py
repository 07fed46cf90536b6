"""Every ServiceAccount gets one pull secret, and lists it once it holds a credential."""

from __future__ import annotations

import asyncio

import pytest
from tests.helpers.events import is_told
from tests.helpers.server_decision import grant
from tests.pullsecrets.harness import REGISTRY, PullSecretHarness, claims_of, content_of, is_filled, token_of

from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT,
    ANNOTATION_ACCOUNT_MISSPELT,
    ANNOTATION_BINDING,
    ANNOTATION_PULL_SECRET,
    DOCKERCFG_KEY,
    DOCKERCFG_TYPE,
    LABEL_PULL_SECRETS,
)
from watchword.api.resources import (
    EVENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.pullsecrets.pull_secret import default_secret_name
from watchword.testing.eventually import eventually, eventually_all, is_gone


async def test_new_account_gets_a_pull_secret_with_a_bound_token(cluster: PullSecretHarness) -> None:
    cluster.start()
    account = await cluster.account("builder")

    secret = await cluster.listed("builder")

    claims = claims_of(secret)
    assert set(content_of(secret)) == {REGISTRY}
    assert claims["sub"] == f"system:serviceaccount:{cluster.namespace}:builder"
    assert claims["kubernetes.io"]["secret"]["uid"] == uid_of(secret)
    annotations = annotations_of(secret)
    assert annotations[ANNOTATION_ACCOUNT] == annotations[ANNOTATION_ACCOUNT_MISSPELT] == "builder"
    assert annotations[ANNOTATION_BINDING] == "bound"
    assert [row["uid"] for row in secret["metadata"]["ownerReferences"]] == [uid_of(account)]


async def test_pull_secret_is_listed_only_once_it_holds_a_credential(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    secret = await cluster.listed("builder")

    name = secret["metadata"]["name"]
    rows = [row for row in cluster.written if f"/namespaces/{cluster.namespace}/" in row and "default" not in row]

    base = f"/api/v1/namespaces/{cluster.namespace}"
    order = [
        f"POST {base}/secrets",
        f"POST {base}/serviceaccounts/builder/token",
        f"PATCH {base}/secrets/{name}",
        f"PATCH {base}/serviceaccounts/builder",
    ]
    assert [row for row in rows if row in order[1:]] == order[1:]
    assert rows.index(order[0]) < rows.index(order[1])


async def test_pull_secrets_and_mounted_secrets_of_others_are_kept(cluster: PullSecretHarness) -> None:
    cluster.start()
    others = {"imagePullSecrets": [{"name": "quay"}], "secrets": [{"name": "database"}]}
    await cluster.account("builder", **others)

    secret = await cluster.listed("builder")

    account = await cluster.client.get(SERVICE_ACCOUNTS, cluster.key("builder"))
    assert account["imagePullSecrets"] == [{"name": "quay"}, {"name": secret["metadata"]["name"]}]
    assert account["secrets"] == [{"name": "database"}]


async def test_pull_secret_that_an_account_mounts_is_removed_from_its_secrets(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    name = (await cluster.listed("builder"))["metadata"]["name"]

    await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key("builder"), {"secrets": [{"name": name}]})

    await eventually(
        cluster.client, SERVICE_ACCOUNTS, cluster.key("builder"), lambda obj: not (obj or {}).get("secrets")
    )


async def test_restart_writes_nothing_when_nothing_differs(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    await cluster.listed("builder")
    await cluster.listed("default")
    await cluster.stop()
    cluster.written.clear()

    cluster.start()
    await cluster.account("second")
    await cluster.listed("second")  # so everything before it was looked at again

    assert cluster.writes_to("builder") == []


async def test_account_that_an_operator_rewrites_keeps_one_pull_secret(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    for _ in range(3):
        rewritten = {"metadata": {"annotations": None}, "imagePullSecrets": None}
        await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key("builder"), rewritten)
        assert (await cluster.listed("builder"))["metadata"]["name"] == first["metadata"]["name"]

    own = [row for row in await cluster.pull_secrets() if annotations_of(row)[ANNOTATION_ACCOUNT] == "builder"]
    assert [uid_of(row) for row in own] == [uid_of(first)]
    assert token_of(own[0]) == token_of(first)


@pytest.mark.planes("embedded")
async def test_program_that_rewrites_an_account_for_ten_minutes_is_named_and_causes_few_writes(
    cluster: PullSecretHarness,
) -> None:
    cluster.start()
    await cluster.account("builder")
    await cluster.listed("builder")
    cluster.written.clear()
    rewritten = SERVICE_ACCOUNTS.manifest(cluster.key("builder"), imagePullSecrets=[])

    for _ in range(600):
        await cluster.client.apply(SERVICE_ACCOUNTS, rewritten, manager="argocd-controller", force=True)
        await asyncio.sleep(1)

    await is_told(cluster.client, "builder", "ServiceAccountRewritten")
    events = (await cluster.client.list(EVENTS, namespace=cluster.namespace)).items
    notes = [event["note"] for event in events if event["reason"] == "ServiceAccountRewritten"]
    assert "argocd-controller" in notes[0]
    own = [row for row in await cluster.pull_secrets() if annotations_of(row)[ANNOTATION_ACCOUNT] == "builder"]
    assert len(own) == 1
    assert len(cluster.writes_to("serviceaccounts/builder")) <= 20  # less and less often


async def test_deleted_pull_secret_is_replaced_under_the_same_name(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.client.delete(SECRETS, ObjectKey.of(first))

    def is_another(secret: Object | None) -> bool:
        return secret is not None and is_filled(secret) and uid_of(secret) != uid_of(first)

    second = await cluster.secret(first["metadata"]["name"], is_another)
    assert claims_of(second)["kubernetes.io"]["secret"]["uid"] == uid_of(second)


async def test_deleted_account_stays_deleted(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    secret = await cluster.listed("builder")

    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("builder"))

    await eventually(cluster.client, SECRETS, ObjectKey.of(secret), is_gone)
    await cluster.account("last")
    await cluster.listed("last")
    assert await cluster.client.find(SERVICE_ACCOUNTS, cluster.key("builder")) is None
    assert await cluster.client.find(SECRETS, ObjectKey.of(secret)) is None


async def test_account_that_was_made_anew_gets_a_pull_secret_of_its_own(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.client.delete(SERVICE_ACCOUNTS, cluster.key("builder"))
    successor = await cluster.account("builder")
    second = await cluster.listed("builder")

    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert claims_of(second)["kubernetes.io"]["serviceaccount"] == {"name": "builder", "uid": uid_of(successor)}
    await eventually(cluster.client, SECRETS, ObjectKey.of(first), is_gone)


async def test_reference_to_a_foreign_secret_is_refused_and_replaced(cluster: PullSecretHarness) -> None:
    foreign = SECRETS.manifest(cluster.key("database"), type="Opaque", stringData={"password": "kept"})
    before = await cluster.client.create(SECRETS, foreign)
    cluster.start()
    await cluster.account("builder", metadata={"annotations": {ANNOTATION_PULL_SECRET: "database"}})

    secret = await cluster.listed("builder")

    assert secret["metadata"]["name"] != "database"
    assert (await cluster.client.get(SECRETS, cluster.key("database")))["data"] == before["data"]
    events = await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretReferenceRefused" for event in found.values()),
        namespace=cluster.namespace,
    )
    assert all("kept" not in str(event) for event in events.values())


@pytest.mark.timeout(240)
async def test_secret_under_the_name_of_a_pull_secret_is_kept_until_it_is_deleted(cluster: PullSecretHarness) -> None:
    account = await cluster.account("builder")
    name = default_secret_name(ObjectKey.of(account), uid_of(account))
    await cluster.client.create(SECRETS, SECRETS.manifest(cluster.key(name), stringData={"password": "kept"}))
    cluster.start()
    await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretNameTaken" for event in found.values()),
        namespace=cluster.namespace,
    )

    assert "password" in (await cluster.client.get(SECRETS, cluster.key(name)))["data"]
    await cluster.client.delete(SECRETS, cluster.key(name))
    listed = await cluster.listed("builder", within=120)  # a refusal is repeated within a minute
    assert listed["metadata"]["name"] == name


async def test_secret_that_only_claims_an_account_gets_no_token(cluster: PullSecretHarness) -> None:
    cluster.start()
    account = await cluster.account("admin")
    await cluster.listed("admin")
    claim = SECRETS.manifest(
        cluster.key("claim"),
        metadata={
            "annotations": {ANNOTATION_ACCOUNT: "admin", ANNOTATION_BINDING: "bound"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ServiceAccount", "name": "admin", "uid": uid_of(account)}
            ],
        },
        type=DOCKERCFG_TYPE,
        data={DOCKERCFG_KEY: "e30="},
    )
    await cluster.client.create(SECRETS, claim)

    await eventually(cluster.client, SECRETS, cluster.key("claim"), is_gone)

    assert not [row for row in cluster.written if row.startswith("PATCH") and row.endswith("/claim")]


@pytest.mark.parametrize("owned", [False, True])
async def test_copy_that_a_user_made_of_a_pull_secret_stays(cluster: PullSecretHarness, *, owned: bool) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")
    kept = ("annotations", "ownerReferences") if owned else ("annotations",)
    metadata = {name: first["metadata"][name] for name in kept}
    copy = SECRETS.manifest(cluster.key("copy"), metadata=metadata, type=DOCKERCFG_TYPE, data=first["data"])
    made = await cluster.client.create(SECRETS, copy)

    await cluster.configure(registries="second.example")
    await cluster.secret(
        first["metadata"]["name"], lambda s: s is not None and set(content_of(s)) == {"second.example"}
    )
    labels = {"metadata": {"labels": {LABEL_PULL_SECRETS: "disabled"}}}
    await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key("builder"), labels)
    await eventually(cluster.client, SECRETS, ObjectKey.of(first), is_gone)

    assert await cluster.client.get(SECRETS, cluster.key("copy")) == made


async def test_owner_reference_that_was_lost_is_restored_without_a_new_token(cluster: PullSecretHarness) -> None:
    cluster.start()
    account = await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.client.patch(SECRETS, ObjectKey.of(first), {"metadata": {"ownerReferences": None}})

    def is_owned(secret: Object | None) -> bool:
        owners = (secret or {}).get("metadata", {}).get("ownerReferences") or []
        return [row["uid"] for row in owners] == [uid_of(account)]

    assert token_of(await cluster.secret(first["metadata"]["name"], is_owned)) == token_of(first)


async def test_annotations_that_were_lost_are_restored(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.client.patch(SECRETS, ObjectKey.of(first), {"metadata": {"annotations": None}})

    restored = await cluster.secret(
        first["metadata"]["name"], lambda obj: annotations_of(obj or {}).get(ANNOTATION_BINDING) == "bound"
    )
    assert annotations_of(restored)[ANNOTATION_ACCOUNT] == "builder"


async def test_account_with_the_label_disabled_is_cleaned_up_and_comes_back(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder", imagePullSecrets=[{"name": "quay"}])
    secret = await cluster.listed("builder")

    await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key("builder"), _labels("disabled"))
    await eventually(cluster.client, SECRETS, ObjectKey.of(secret), is_gone)
    account = await cluster.client.get(SERVICE_ACCOUNTS, cluster.key("builder"))
    await cluster.client.patch(SERVICE_ACCOUNTS, cluster.key("builder"), _labels(None))

    assert account["imagePullSecrets"] == [{"name": "quay"}]
    assert ANNOTATION_PULL_SECRET not in annotations_of(account)
    assert is_filled(await cluster.listed("builder"))
    await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretRemoved" for event in found.values()),
        namespace=cluster.namespace,
    )


async def test_namespace_with_the_label_disabled_is_cleaned_up(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    await cluster.listed("builder")
    await cluster.listed("default")

    await cluster.client.patch(NAMESPACES, ObjectKey.cluster(cluster.namespace), _labels("disabled"))

    await eventually_all(
        cluster.client,
        SECRETS,
        lambda found: not found,
        namespace=cluster.namespace,
        fields=f"type={DOCKERCFG_TYPE}",
    )


async def test_switching_off_removes_everything_and_switching_on_restores_it(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    secret = await cluster.listed("builder")

    await cluster.configure(enabled="false")
    await eventually(cluster.client, SECRETS, ObjectKey.of(secret), is_gone)
    account = await cluster.client.get(SERVICE_ACCOUNTS, cluster.key("builder"))
    await cluster.configure(enabled="true")

    assert not account.get("imagePullSecrets")
    assert ANNOTATION_PULL_SECRET not in annotations_of(account)
    assert is_filled(await cluster.listed("builder"))


async def test_configuration_with_an_error_changes_nothing(cluster: PullSecretHarness) -> None:
    cluster.start()
    await cluster.account("builder")
    first = await cluster.listed("builder")

    await cluster.configure(enabled="maybe", registries="other.example")
    await cluster.account("second")
    second = await cluster.listed("second")
    await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretConfigurationRefused" for event in found.values()),
        namespace=cluster.namespace,
    )

    assert set(content_of(second)) == {REGISTRY}
    assert token_of(await cluster.client.get(SECRETS, ObjectKey.of(first))) == token_of(first)


async def test_account_that_no_pod_uses_gets_nothing_when_pods_decide(cluster: PullSecretHarness) -> None:
    cluster.start(only_used=True)
    await cluster.account("unused")
    await cluster.account("used")
    pod = PODS.manifest(
        cluster.key("pod"), spec={"serviceAccountName": "used", "containers": [{"name": "app", "image": "app"}]}
    )
    await cluster.client.create(PODS, pod)

    await cluster.listed("used")

    unused = await cluster.client.get(SERVICE_ACCOUNTS, cluster.key("unused"))
    assert ANNOTATION_PULL_SECRET not in annotations_of(unused)


@pytest.mark.planes("embedded")  # in virtual time: the annotation waits five minutes for a token
async def test_refusal_of_tokens_is_an_event_and_the_empty_secret_is_not_listed(cluster: PullSecretHarness) -> None:
    await _grant(cluster, "no-tokens")
    cluster.start(user="no-tokens")
    await cluster.account("builder")

    account = await eventually(
        cluster.client,
        SERVICE_ACCOUNTS,
        cluster.key("builder"),
        lambda obj: ANNOTATION_PULL_SECRET in annotations_of(obj or {}),
        within=400,
    )
    await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretRefreshFailed" for event in found.values()),
        namespace=cluster.namespace,
    )

    assert not account.get("imagePullSecrets")


async def _grant(cluster: PullSecretHarness, user: str) -> None:
    """Let a user do everything that the controllers do, except ask for tokens."""
    name = cluster.plane.unique("no-tokens")
    kinds = ["secrets", "serviceaccounts", "namespaces", "configmaps", "services", "events"]
    rules = [{"apiGroups": ["", "events.k8s.io"], "resources": kinds, "verbs": ["*"]}]
    await grant(cluster.client, ObjectKey.cluster(name), rules, user)


def _labels(value: str | None) -> Object:
    return {"metadata": {"labels": {LABEL_PULL_SECRETS: value}}}
