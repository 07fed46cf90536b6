"""The rights that accepting a cluster, joining a set and binding a set need, by the hub's admission policies."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.helpers.server_decision import grant, until_refused

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import HUB_FINALIZERS, Annotation, Label
from watchword.api.resources import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
)
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden
from watchword.registration.hub import installation as prerequisites
from watchword.testing.plane import Plane

CLUSTER_GROUP = MANAGED_CLUSTERS.group
Right = tuple[str, str, str, str]  # verb, group, resource and name; the name of the cluster when it is empty
ACCEPT: Right = ("update", "register.open-cluster-management.io", "managedclusters/accept", "")


def join(name: str) -> Right:
    """The right to put clusters into a set, and to take them out."""
    return ("create", CLUSTER_GROUP, "managedclustersets/join", name)


class Hub:
    """A control plane with what a hub installs; makes users with chosen rights."""

    def __init__(self, plane: Plane) -> None:
        self.plane, self.client = plane, plane.client()

    async def user(self, cluster: str, rights: Sequence[Right]) -> Client:
        """Return a new user who may write clusters and bindings, and has these rights besides."""
        name = self.plane.unique("user")
        kinds = ["managedclusters", "managedclustersetbindings"]
        rules = [{"apiGroups": [CLUSTER_GROUP], "resources": kinds, "verbs": ["create", "get", "update"]}]
        rules += [
            {"apiGroups": [group], "resources": [resource], "verbs": [verb], "resourceNames": [about or cluster]}
            for verb, group, resource, about in rights
        ]
        await grant(self.client, ObjectKey.cluster(name), rules, name)
        return self.plane.client(name)

    async def needs(self, resource: Resource, new: Object, old: Object | None, rights: Sequence[Right]) -> bool:
        """Whether a write needs exactly these rights."""
        if old is not None:
            stored = await self.client.create(resource, old)
            new = {**new, "metadata": {**new["metadata"], "resourceVersion": stored["metadata"]["resourceVersion"]}}
        cluster = new["metadata"]["name"]
        await self._write(await self.user(cluster, rights), resource, new, is_new=old is None)
        for missing in rights:
            user = await self.user(cluster, [right for right in rights if right != missing])
            with pytest.raises(Forbidden, match="needs the right"):
                await self._write(user, resource, new, is_new=old is None)
        return True

    async def _write(self, client: Client, resource: Resource, obj: Object, *, is_new: bool) -> None:
        await (client.create if is_new else client.update)(resource, obj, dry_run=True)


@pytest.fixture
async def hub(plane: Plane) -> Hub:
    """The policies in force."""
    await prerequisites.install(plane.client())
    found, name = Hub(plane), plane.unique("probe")
    user = await found.user(name, [])
    await until_refused(lambda: user.create(MANAGED_CLUSTERS, _accepted(name), dry_run=True))
    binding = _bound(await plane.namespace())
    await until_refused(lambda: user.create(MANAGED_CLUSTER_SET_BINDINGS, binding, dry_run=True))
    return found


def _cluster(*, accepted: bool | None = None, cluster_set: str = "") -> Object:
    spec = {} if accepted is None else {"hubAcceptsClient": accepted}
    return {"metadata": {"labels": {Label.CLUSTER_SET: cluster_set}} if cluster_set else {}, "spec": spec}


def _noted(note: str = "", finalizers: Sequence[str] = ()) -> Object:
    annotations = {"annotations": {Annotation.FIRST_KEY: note}} if note else {}
    return {"metadata": {**annotations, "finalizers": list(finalizers)}, "spec": {}}


def _named(name: str, cluster: Object | None) -> Object | None:
    return cluster and MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), **cluster)


def _accepted(name: str) -> Object:
    return MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={"hubAcceptsClient": True})


def _bound(namespace: str, name: str = "global") -> Object:
    return MANAGED_CLUSTER_SET_BINDINGS.manifest(ObjectKey(namespace, name), spec={"clusterSet": name})


@pytest.mark.parametrize(
    ("new", "old", "rights"),
    [
        pytest.param(_cluster(), None, [], id="a cluster introduces itself"),
        pytest.param(_cluster(accepted=False), None, [], id="not accepted"),
        pytest.param(_cluster(accepted=True), None, [ACCEPT], id="accepted from the start"),
        pytest.param(_cluster(accepted=True), _cluster(accepted=False), [ACCEPT], id="accepted later"),
        pytest.param(_cluster(accepted=True), _cluster(accepted=True), [], id="stays accepted"),
        pytest.param(_cluster(accepted=False), _cluster(accepted=True), [], id="turned away"),
        pytest.param(_cluster(cluster_set="default"), None, [], id="starts in the default set"),
        pytest.param(_cluster(cluster_set="prod"), None, [join("prod")], id="starts in another set"),
        pytest.param(
            _cluster(cluster_set="prod"),
            _cluster(cluster_set="default"),
            [join("default"), join("prod")],
            id="moves between sets",
        ),
        pytest.param(_cluster(), _cluster(cluster_set="prod"), [join("prod")], id="leaves its set"),
        pytest.param(_cluster(cluster_set="prod"), _cluster(cluster_set="prod"), [], id="stays in its set"),
        pytest.param(_noted("k"), None, [ACCEPT], id="comes with a note"),
        pytest.param(_noted("k"), _noted(), [ACCEPT], id="is noted"),
        pytest.param(_noted("k"), _noted("l"), [ACCEPT], id="is noted anew"),
        pytest.param(_noted(), _noted("k"), [ACCEPT], id="loses its note"),
        pytest.param(_noted("k"), _noted("k"), [], id="keeps its note"),
        pytest.param(_noted(), _noted("", HUB_FINALIZERS), [ACCEPT], id="loses the hub's finalizers"),
        pytest.param(_noted("", HUB_FINALIZERS[:1]), _noted("", HUB_FINALIZERS), [ACCEPT], id="loses one of them"),
        pytest.param(_noted("", HUB_FINALIZERS), _noted("", (*HUB_FINALIZERS, "x/y")), [], id="loses a foreign one"),
        pytest.param(_noted("", HUB_FINALIZERS), _noted(), [], id="gets them"),
    ],
)
async def test_rights_on_managed_clusters(hub: Hub, new: Object, old: Object | None, rights: list[Right]) -> None:
    name = hub.plane.unique("cluster")

    assert await hub.needs(MANAGED_CLUSTERS, _named(name, new) or {}, _named(name, old), rights)


async def test_binding_a_set_needs_the_right_to_bind_it(hub: Hub) -> None:
    binding = _bound(await hub.plane.namespace())
    right: Right = ("create", CLUSTER_GROUP, "managedclustersets/bind", "global")

    assert await hub.needs(MANAGED_CLUSTER_SET_BINDINGS, binding, None, [right])
    assert await hub.needs(MANAGED_CLUSTER_SET_BINDINGS, binding, binding, [])


async def test_reserved_names_are_refused_to_every_user(hub: Hub) -> None:
    with pytest.raises(Forbidden, match="this cluster name is reserved"):
        await hub.client.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster("default")))
