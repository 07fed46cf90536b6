"""The rendered manifests are all that the processes need, and nothing in them is idle."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.helpers.node_cluster import a_cluster_with_node
from tests.pullsecrets.harness import PullSecretHarness, content_of, is_filled

from watchword.api import yaml
from watchword.api.meta import Manifest, ObjectKey, annotations_of
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET, DOCKERCFG_TYPE
from watchword.api.rbac import RbacRule
from watchword.api.resources import CLUSTER_ROLES, CONFIG_MAPS, DEPLOYMENTS, EVENTS, ROLES, SECRETS, SERVICE_ACCOUNTS
from watchword.cli.main import cli
from watchword.kube.connect import connect
from watchword.kube.errors import AlreadyExists, Invalid
from watchword.operator.pull_secret_manifests import (
    PULL_SECRETS,
    PULL_SECRETS_OWN_RIGHTS,
    PULL_SECRETS_RIGHTS,
    PullSecretBundleOptions,
    RegistryAuthBundleOptions,
    pull_secret_bundle,
    registry_auth_bundle,
)
from watchword.testing.errors import EventuallyTimeout
from watchword.testing.eventually import eventually_all
from watchword.testing.plane import Plane

EVERY_RIGHT = (*PULL_SECRETS_RIGHTS, *PULL_SECRETS_OWN_RIGHTS)
USER = f"system:serviceaccount:{PULL_SECRETS.namespace}:{PULL_SECRETS.name}"
BUNDLE = pull_secret_bundle(PullSecretBundleOptions(registries=("registry.example",)))


async def apply(cluster: PullSecretHarness, rows: list[Manifest], missing: RbacRule | None = None) -> None:
    """Apply the manifests without the Deployment, and without one rule wherever it stands."""
    for resource, obj in rows:
        if resource in (ROLES, CLUSTER_ROLES) and missing is not None:
            kept = [rule for rule in obj["rules"] if rule != missing.rule]
            await cluster.client.apply(resource, {**obj, "rules": kept}, force=True)
        elif resource is not DEPLOYMENTS:
            await cluster.client.apply(resource, obj, force=True)


async def keep_every_promise(cluster: PullSecretHarness) -> None:
    """Live a life in which every right is used."""
    foreign = SECRETS.manifest(cluster.key("database"), stringData={"password": "kept"})
    await cluster.client.create(SECRETS, foreign)
    await cluster.account("builder", metadata={"annotations": {ANNOTATION_PULL_SECRET: "database"}})
    await cluster.listed("builder")
    await eventually_all(
        cluster.client,
        EVENTS,
        lambda found: any(event["reason"] == "PullSecretReferenceRefused" for event in found.values()),
        namespace=cluster.namespace,
    )


async def test_rendered_rights_are_enough(cluster: PullSecretHarness) -> None:
    await apply(cluster, BUNDLE)
    configuration = next(ObjectKey.of(obj) for resource, obj in BUNDLE if resource is CONFIG_MAPS)
    cluster.start(user=USER, groups=("system:serviceaccounts",), elect=True, config_map=configuration)

    await keep_every_promise(cluster)

    account = await cluster.client.get(SERVICE_ACCOUNTS, cluster.key("builder"))
    assert annotations_of(account)[ANNOTATION_PULL_SECRET] != "database"


@pytest.mark.planes("embedded")
@pytest.mark.parametrize("right", EVERY_RIGHT, ids=lambda right: f"{right.group}-{right.resources[0]}")
async def test_without_any_right_a_promise_is_broken(cluster: PullSecretHarness, right: RbacRule) -> None:
    await apply(cluster, BUNDLE, missing=right)
    configuration = next(ObjectKey.of(obj) for resource, obj in BUNDLE if resource is CONFIG_MAPS)
    cluster.start(user=USER, groups=("system:serviceaccounts",), elect=True, config_map=configuration)

    with pytest.raises(EventuallyTimeout):
        await keep_every_promise(cluster)


async def test_server_accepts_both_bundles(cluster: PullSecretHarness) -> None:
    options = RegistryAuthBundleOptions("registry", "registry.example")
    for resource, obj in (*BUNDLE, *registry_auth_bundle(options)):
        if obj["metadata"]["name"].startswith("watchword") and resource.namespaced:
            await cluster.client.apply(
                resource, {**obj, "metadata": {**obj["metadata"], "namespace": cluster.namespace}}
            )


def test_no_pod_of_the_bundles_is_root_and_all_are_probed() -> None:
    options = RegistryAuthBundleOptions("registry", "registry.example")
    rows = [obj for resource, obj in (*BUNDLE, *registry_auth_bundle(options)) if resource is DEPLOYMENTS]

    assert len(rows) == 2
    for row in rows:
        pod = row["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert all({"livenessProbe", "readinessProbe"} <= set(container) for container in pod["containers"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["manifests", "pull-secrets", "--registry", "quay.io", "--audience", "registry", "--only-used"],
        ["manifests", "registry-auth", "--service", "registry", "--audience", "registry"],
    ],
)
def test_printed_manifests_start_a_command_with_flags_that_it_has(arguments: list[str]) -> None:
    printed = CliRunner().invoke(cli, arguments)

    documents = list(yaml.load_all(printed.stdout))
    (workload,) = [document for document in documents if document["kind"] == "Deployment"]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    flags = [argument.partition("=")[0] for argument in container["args"][1:]]
    helped = CliRunner().invoke(cli, [container["args"][0], "--help"]).stdout
    assert all(flag in helped for flag in flags)


@pytest.mark.parametrize("flags", [["--registry", "https://x"], ["--registry", "quay.io", "--registry", "a b\n=c"]])
def test_configuration_that_the_controllers_refuse_is_not_printed(flags: list[str]) -> None:
    printed = CliRunner().invoke(cli, ["manifests", "pull-secrets", *flags])

    assert (printed.exit_code, printed.stdout) == (2, "")
    assert "is not a registry: write host, host:port or host:port/path" in printed.stderr


def test_token_service_is_applied_again_without_another_key() -> None:
    arguments = ["manifests", "registry-auth", "--service", "registry", "--audience", "registry"]
    first, second = (CliRunner().invoke(cli, arguments).stdout for _ in range(2))

    assert first == second
    assert "Secret" not in {document["kind"] for document in yaml.load_all(first)}


async def test_signing_key_is_made_once(plane: Plane) -> None:
    namespace = await plane.namespace("registry")
    made = [yaml.load(CliRunner().invoke(cli, ["manifests", "registry-auth-key"]).stdout) for _ in range(2)]
    first, second = ({**obj, "metadata": {**obj["metadata"], "namespace": namespace}} for obj in made)
    await plane.client().create(SECRETS, first)

    with pytest.raises(AlreadyExists):
        await plane.client().create(SECRETS, second)
    with pytest.raises(Invalid, match="immutable"):
        await plane.client().apply(SECRETS, second, force=True)


@pytest.mark.real_time
@pytest.mark.timeout(180)
async def test_printed_manifests_work_on_the_embedded_control_plane(tmp_path: Path) -> None:
    async with a_cluster_with_node(tmp_path) as kubeconfig:
        client = connect(kubeconfig)
        for resource, obj in BUNDLE:
            await client.apply(resource, obj)

        secrets = await eventually_all(
            client,
            SECRETS,
            lambda found: bool(found) and all(map(is_filled, found.values())),
            fields=f"type={DOCKERCFG_TYPE}",
            namespace="default",
        )
        await client.close()

    assert [set(content_of(secret)) for secret in secrets.values()] == [{"registry.example"}]
