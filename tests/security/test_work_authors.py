"""What a user of the hub who may only write ManifestWorks can make a cluster's agent do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.helpers.server_decision import grant, until_refused

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import UNNAMED_EXECUTOR, WORK_GROUP
from watchword.api.resources import MANIFEST_WORKS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.registration.hub import installation
from watchword.testing.plane import Plane

EXECUTOR = {"subject": {"type": "ServiceAccount", "serviceAccount": {"namespace": "shop", "name": "deployer"}}}
EXECUTOR_NAME = "system:serviceaccount:shop:deployer"
INCOMPLETE = {"subject": {"type": "ServiceAccount"}}


async def an_author(plane: Plane, namespace: str, executors: Sequence[str] = ()) -> Client:
    """Return a new user who may write works in a namespace, and execute them as these."""
    key = ObjectKey(namespace, plane.unique("author"))
    rules = [{"apiGroups": [WORK_GROUP], "resources": ["manifestworks"], "verbs": ["create", "get", "update"]}]
    if executors:
        rule = {"apiGroups": [WORK_GROUP], "resources": ["manifestworks"], "verbs": ["execute-as"]}
        rules.append({**rule, "resourceNames": list(executors)})
    client = plane.client()
    await grant(client, key, rules, key.name)
    return plane.client(key.name)


def a_work(namespace: str, name: str, executor: Object | None, data: str = "1") -> Object:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "shop"}}
    spec = {"workload": {"manifests": [{**manifest, "data": {"a": data}}]}}
    return MANIFEST_WORKS.manifest(
        ObjectKey(namespace, name), spec={**spec, "executor": executor} if executor else spec
    )


async def install_policy(plane: Plane, namespace: str, *, demands_executor: bool = False) -> None:
    await installation.install(plane.client(), demands_executor=demands_executor)
    author = await an_author(plane, namespace)
    executor = None if demands_executor else EXECUTOR
    await until_refused(lambda: author.create(MANIFEST_WORKS, a_work(namespace, "probe", executor), dry_run=True))


async def test_executor_is_named_only_by_users_who_may_execute_as_it(plane: Plane) -> None:
    namespace = await plane.namespace()
    await install_policy(plane, namespace)
    allowed = await an_author(plane, namespace, [EXECUTOR_NAME])
    others = [await an_author(plane, namespace), await an_author(plane, namespace, [f"{EXECUTOR_NAME}-2"])]

    for other in others:
        with pytest.raises(Forbidden, match="execute-as"):
            await other.create(MANIFEST_WORKS, a_work(namespace, "w", EXECUTOR))
        await other.create(MANIFEST_WORKS, a_work(namespace, "w", None), dry_run=True)
        await other.create(MANIFEST_WORKS, a_work(namespace, "w", {}), dry_run=True)
    with pytest.raises(Forbidden, match="execute-as"):
        await allowed.create(MANIFEST_WORKS, a_work(namespace, "w", INCOMPLETE))
    await allowed.create(MANIFEST_WORKS, a_work(namespace, "w", EXECUTOR))


async def test_manifests_of_a_work_with_an_executor_are_changed_only_by_users_who_may_execute_as_it(
    plane: Plane,
) -> None:
    namespace = await plane.namespace()
    await install_policy(plane, namespace)
    allowed, other = await an_author(plane, namespace, [EXECUTOR_NAME]), await an_author(plane, namespace)
    stored = await allowed.create(MANIFEST_WORKS, a_work(namespace, "w", EXECUTOR))

    changed = {**stored, "spec": a_work(namespace, "w", EXECUTOR, "2")["spec"]}
    with pytest.raises(Forbidden, match="execute-as"):
        await other.update(MANIFEST_WORKS, changed)
    labelled = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}, "finalizers": ["example.com/one"]}}
    stored = await other.update(MANIFEST_WORKS, labelled)
    await allowed.update(MANIFEST_WORKS, {**changed, "metadata": {**stored["metadata"], "finalizers": []}})


async def test_hub_that_demands_executors_refuses_works_without_one(private_plane: Plane) -> None:
    namespace = await private_plane.namespace()
    await install_policy(private_plane, namespace, demands_executor=True)
    author = await an_author(private_plane, namespace, [EXECUTOR_NAME])
    addons = await an_author(private_plane, namespace, [UNNAMED_EXECUTOR])

    no_executors: list[Object | None] = [None, {}]
    for executor in no_executors:
        with pytest.raises(Forbidden, match="this hub demands an executor"):
            await author.create(MANIFEST_WORKS, a_work(namespace, "w", executor))
    await author.create(MANIFEST_WORKS, a_work(namespace, "w", EXECUTOR))
    await addons.create(MANIFEST_WORKS, a_work(namespace, "v", None))
