"""The scenarios of the design, run as they are written by a Gherkin runner."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

import pytest
import pytest_asyncio
from pytest_bdd import given, scenario, then, when
from tests.pullsecrets.harness import (
    REGISTRY,
    PullSecretHarness,
    claims_of,
    content_of,
    is_filled,
    open_pull_secrets,
    token_of,
)

from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT,
    ANNOTATION_BINDING,
    DOCKERCFG_KEY,
    LEGACY_TOKEN,
    SERVICE_ACCOUNT_TOKEN_TYPE,
)
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS, SERVICES
from watchword.credentials.evidence import SignerTiming
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane
from watchword.testing.plugin import LOOP_PARAMETER
from watchword.testing.virtual_time import VirtualLoop

pytestmark = pytest.mark.usefixtures("story")  # steps ask for it too late to run on every control plane


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the steps in virtual time: they are no coroutines, so pytest-asyncio does not choose a loop for them."""
    metafunc.fixturenames.append(LOOP_PARAMETER)
    metafunc.parametrize(LOOP_PARAMETER, [VirtualLoop], ids=["virtual"], indirect=True)


T = TypeVar("T")
QUICK = SignerTiming(settle=timedelta(seconds=1), spread=timedelta(seconds=1), poll=timedelta(seconds=1))


@dataclass
class Story:
    """One scenario: the cluster, and what its steps have seen so far."""

    cluster: PullSecretHarness
    loop: asyncio.AbstractEventLoop
    registry: ObjectKey
    legacy: dict[str, tuple[Object, Object]] = field(default_factory=dict)
    account: str = ""
    secret: Object = field(default_factory=dict)

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Run a step on the loop of the cluster."""
        return self.loop.run_until_complete(step)

    def start(self) -> None:
        """Start version N."""

        async def begin() -> None:
            self.cluster.start(signer_timing=QUICK, registry_services=(self.registry,))

        self.run(begin())


@pytest_asyncio.fixture
async def story(private_plane: Plane) -> AsyncIterator[Story]:
    async with open_pull_secrets(private_plane) as cluster:
        namespace = await private_plane.namespace("registry")
        yield Story(cluster, asyncio.get_running_loop(), ObjectKey(namespace, "image-registry"))


@scenario("features/new_cluster.feature", "New cluster created")
def test_new_cluster_has_bound_tokens_alone() -> None:
    """Run the scenario."""


@scenario("features/upgraded_cluster.feature", "Existing managed secrets")
def test_upgrade_keeps_legacy_secrets() -> None:
    """Run the scenario."""


@scenario("features/upgraded_cluster.feature", "New service accounts created after upgrade")
def test_account_created_after_the_upgrade_has_a_bound_token() -> None:
    """Run the scenario."""


@scenario("features/migration.feature", "Deleting a legacy managed image pull secret")
def test_deleting_a_legacy_pull_secret_migrates_its_account() -> None:
    """Run the scenario."""


@scenario("features/migration.feature", "Deleting a legacy managed service account token secret")
def test_deleting_a_legacy_token_migrates_its_account() -> None:
    """Run the scenario."""


@scenario("features/renewal.feature", "The pull secret is not as it should be")
def test_pull_secret_that_is_not_as_it_should_be_gets_another_token() -> None:
    """Run the scenario."""


@scenario("features/renewal.feature", "An operator rewrites the service account")
def test_account_that_is_rewritten_lists_the_same_pull_secret_again() -> None:
    """Run the scenario."""


@given("a freshly installed cluster")
def freshly_installed(story: Story) -> None:
    story.start()


@given("an existing cluster version N-1")
def existing_cluster(story: Story) -> None:
    async def legacy_layout() -> None:
        for name in ("builder", "deployer"):
            story.legacy[name] = await story.cluster.legacy_pair(await story.cluster.account(name))

    story.run(legacy_layout())


@given("the ImageRegistry capability is enabled")
def capability_enabled(story: Story) -> None:
    story.run(story.cluster.configure(enabled="true", registries=""))


@given("the integrated image registry is enabled")
def registry_enabled(story: Story) -> None:
    service = SERVICES.manifest(story.registry, spec={"ports": [{"port": 5000}]})
    story.run(story.cluster.client.create(SERVICES, service))


@given("the cluster is upgraded to version N")
@when("the cluster is upgraded to version N")
def upgraded(story: Story) -> None:
    story.start()

    async def adopted() -> None:
        for _, secret in story.legacy.values():
            account = story.cluster.key(annotations_of(secret)["kubernetes.io/service-account.name"])
            await story.cluster.secret(
                secret["metadata"]["name"], lambda s: annotations_of(s or {}).get(ANNOTATION_BINDING) == "legacy"
            )
            await eventually(
                story.cluster.client,
                SERVICE_ACCOUNTS,
                account,
                lambda a: "openshift.io/internal-registry-pull-secret-ref" in annotations_of(a or {}),
            )

    story.run(adopted())


@given("a service account with a managed image pull secret")
@when("a new service account is created")
def account_created(story: Story) -> None:
    story.account = "created"
    story.run(story.cluster.account("created"))
    story.secret = story.run(story.cluster.listed("created"))


@when("a legacy managed image pull secret is deleted")
def legacy_secret_deleted(story: Story) -> None:
    story.account, (_, secret) = "builder", story.legacy["builder"]
    story.run(story.cluster.client.delete(SECRETS, ObjectKey.of(secret)))


@when("a legacy managed service account token secret is deleted")
def legacy_token_deleted(story: Story) -> None:
    story.account, (token, _) = "builder", story.legacy["builder"]
    story.run(story.cluster.client.delete(SECRETS, ObjectKey.of(token)))


@when("the data of the image pull secret is corrupted")
def corrupted(story: Story) -> None:
    broken = {"data": {DOCKERCFG_KEY: base64.b64encode(b'{"registry.example":{"auth":"bm8="}}').decode()}}
    story.run(story.cluster.client.patch(SECRETS, ObjectKey.of(story.secret), broken))


@when("a registry is added to the list of registries")
def registry_added(story: Story) -> None:
    story.run(story.cluster.configure(registries=f"{REGISTRY} added.example"))


@when("the service account token signer has changed")
def signer_changed(story: Story) -> None:
    story.run(story.cluster.plane.rotate_signing_key())


@when("the service account token is about to expire")
def about_to_expire(story: Story) -> None:
    if not isinstance(story.loop, VirtualLoop):
        pytest.skip("waits for most of an hour: only where time is virtual")
    story.run(asyncio.sleep(claims_of(story.secret)["exp"] - story.cluster.plane.clock.now().timestamp() - 660))


@when("the annotation and the pull secrets of the service account are removed")
def rewritten(story: Story) -> None:
    patch = {"metadata": {"annotations": None}, "imagePullSecrets": None}
    story.run(story.cluster.client.patch(SERVICE_ACCOUNTS, story.cluster.key("created"), patch))


@then("no legacy service account token secrets are generated")
@then("no legacy service account token secrets will be generated")
def no_legacy_tokens(story: Story) -> None:
    expected = {uid_of(token) for token, _ in story.legacy.values()}
    listed = story.run(
        story.cluster.client.list(
            SECRETS, namespace=story.cluster.namespace, fields=f"type={SERVICE_ACCOUNT_TOKEN_TYPE}"
        )
    )
    assert {uid_of(token) for token in listed.items} == expected


@then("the managed image pull secrets generated contain bound tokens")
def bound_tokens_everywhere(story: Story) -> None:
    story.secret = story.run(story.cluster.listed("default"))
    story.account = "default"
    assert_bound(story)


@then("no legacy managed service account tokens are deleted")
def legacy_tokens_kept(story: Story) -> None:
    for token, _ in story.legacy.values():
        found = story.run(story.cluster.client.get(SECRETS, ObjectKey.of(token)))
        assert uid_of(found) == uid_of(token)
        assert LEGACY_TOKEN in found["metadata"]["labels"]


@then("no legacy managed integrated image registry pull secrets are updated")
def legacy_secrets_kept(story: Story) -> None:
    for _, secret in story.legacy.values():
        found = story.run(story.cluster.client.get(SECRETS, ObjectKey.of(secret)))
        assert (uid_of(found), found["data"]) == (uid_of(secret), secret["data"])


@then("a new managed integrated image pull secret will be generated")
def generated(story: Story) -> None:
    assert annotations_of(story.secret)[ANNOTATION_ACCOUNT] == "created"


@then("the auth values will be bound service account tokens")
def assert_bound(story: Story) -> None:
    claims = claims_of(story.secret)
    assert claims["sub"] == f"system:serviceaccount:{story.cluster.namespace}:{story.account}"
    assert claims["kubernetes.io"]["secret"]["uid"] == uid_of(story.secret)
    assert annotations_of(story.secret)[ANNOTATION_BINDING] == "bound"


@then("the corresponding legacy managed service account token secret will be deleted")
def legacy_token_gone(story: Story) -> None:
    token, _ = story.legacy["builder"]
    story.run(eventually(story.cluster.client, SECRETS, ObjectKey.of(token), is_gone))


@then("the corresponding legacy managed image pull secret will be deleted")
def legacy_secret_gone(story: Story) -> None:
    _, secret = story.legacy["builder"]
    story.run(story.cluster.secret(secret["metadata"]["name"], lambda s: s is None or uid_of(s) != uid_of(secret)))


@then("the managed integrated image pull secret will be re-generated")
def generated_again(story: Story) -> None:
    _, legacy = story.legacy["builder"]
    story.secret = story.run(
        story.cluster.secret(
            legacy["metadata"]["name"], lambda s: s is not None and uid_of(s) != uid_of(legacy) and is_filled(s)
        )
    )
    hosts = set(content_of(story.secret))
    assert f"image-registry.{story.registry.namespace}.svc:5000" in hosts


@then("the managed integrated image pull secret gets another token")
def another_token(story: Story) -> None:
    first = token_of(story.secret)

    def is_another(secret: Object | None) -> bool:
        held = "" if secret is None or not is_filled(secret) else str(content_of(secret))
        return len(held) > len(first) and secret is not None and token_of(secret) != first

    story.secret = story.run(story.cluster.secret(story.secret["metadata"]["name"], is_another))


@then("the service account lists the same image pull secret again")
def listed_again(story: Story) -> None:
    assert uid_of(story.run(story.cluster.listed("created"))) == uid_of(story.secret)


@then("the namespace has one managed image pull secret of the service account")
def one_secret(story: Story) -> None:
    found = story.run(story.cluster.pull_secrets())
    assert len([row for row in found if annotations_of(row).get(ANNOTATION_ACCOUNT) == "created"]) == 1
