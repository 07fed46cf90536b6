"""The fleet's own rights: accepting a cluster, joining and binding a set."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pytest

from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import HUB_FINALIZERS, Annotation
from watchword.api.resources import MANAGED_CLUSTER_SET_BINDINGS, MANAGED_CLUSTERS
from watchword.apiserver.admission.managed_clusters import SET_LABEL, ManagedClusterAdmission, default_cluster_set
from watchword.apiserver.authz.model import AuthorizationDecision
from watchword.apiserver.model import ApiError, Operation, RequestInfo, ResourceKind, User
from watchword.apiserver.schema.model import Schema

ACCEPT = "update register.open-cluster-management.io managedclusters/accept c1"
JOIN = "create cluster.open-cluster-management.io managedclustersets/join"


@dataclass(frozen=True)
class Holding:
    """Allows exactly the listed rights."""

    rights: Iterable[str]

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(
            f"{info.verb} {info.group} {info.resource}/{info.subresource} {info.name}" in self.rights
        )


def _cluster(*, accepted: bool | None = None, cluster_set: str = "") -> Object:
    labels = {"labels": {SET_LABEL: cluster_set}} if cluster_set else {}
    spec = {} if accepted is None else {"hubAcceptsClient": accepted}
    return {"metadata": {"name": "c1", **labels}, "spec": spec}


def _noted(note: str = "", finalizers: tuple[str, ...] = ()) -> Object:
    annotations = {"annotations": {Annotation.FIRST_KEY: note}} if note else {}
    return {"metadata": {"name": "c1", **annotations, "finalizers": list(finalizers)}, "spec": {}}


def _write(new: Object, old: Object | None, resource: Resource = MANAGED_CLUSTERS) -> Operation:
    kind = ResourceKind(resource, Schema("object"))
    verb = "create" if old is None else "update"
    return Operation(verb, kind, ObjectKey.cluster("c1"), User("agent"), new=new, old=old)


async def _needs(operation: Operation, *rights: str) -> bool:
    """Whether exactly these rights are needed and enough."""
    await ManagedClusterAdmission(Holding(rights))(operation)
    for missing in rights:
        with pytest.raises(ApiError) as refusal:
            await ManagedClusterAdmission(Holding(set(rights) - {missing}))(operation)
        assert refusal.value.code == 403
    return True


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
        pytest.param(_cluster(cluster_set="prod"), None, [f"{JOIN} prod"], id="starts in another set"),
        pytest.param(
            _cluster(cluster_set="prod"),
            _cluster(cluster_set="default"),
            [f"{JOIN} default", f"{JOIN} prod"],
            id="moves between sets",
        ),
        pytest.param(_cluster(), _cluster(cluster_set="prod"), [f"{JOIN} prod"], id="leaves its set"),
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
async def test_rights_on_managed_clusters(new: Object, old: Object | None, rights: list[str]) -> None:
    assert await _needs(_write(new, old), *rights)


async def test_refusal_names_the_user_and_the_field() -> None:
    with pytest.raises(ApiError) as refusal:
        await ManagedClusterAdmission(Holding([]))(_write(_cluster(accepted=True), None))

    assert refusal.value.message == (
        'managedclusters.cluster.open-cluster-management.io "c1" is forbidden: '
        'user "agent" cannot update the HubAcceptsClient field'
    )


async def test_binding_a_set_needs_the_right_to_bind_it() -> None:
    binding: dict[str, Any] = {"metadata": {"name": "prod"}, "spec": {"clusterSet": "prod"}}
    right = "create cluster.open-cluster-management.io managedclustersets/bind prod"

    assert await _needs(_write(binding, None, MANAGED_CLUSTER_SET_BINDINGS), right)
    assert await _needs(_write(binding, binding, MANAGED_CLUSTER_SET_BINDINGS))


@pytest.mark.parametrize(
    ("given", "expected"),
    [pytest.param("", "default", id="none named"), pytest.param("prod", "prod", id="one named")],
)
async def test_new_cluster_is_in_a_set(given: str, expected: str) -> None:
    operation = _write(_cluster(cluster_set=given), None)

    await default_cluster_set(operation)

    assert operation.new is not None
    assert operation.new["metadata"]["labels"][SET_LABEL] == expected


async def test_joining_machine_introduces_itself_but_does_not_let_itself_in(secured_api: Any) -> None:
    for crd in HUB_CRDS:
        await secured_api.call("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    url = "/apis/cluster.open-cluster-management.io/v1/managedclusters"
    group, everything = "cluster.open-cluster-management.io", ["create", "get", "patch", "update"]
    await secured_api.grant("agent", {"apiGroups": [group], "resources": ["managedclusters"], "verbs": everything})
    head = {"apiVersion": "cluster.open-cluster-management.io/v1", "kind": "ManagedCluster"}
    body = {**head, "metadata": {"name": "c1"}, "spec": {"hubAcceptsClient": True}}

    assert (await secured_api.as_user("agent", "POST", url, body))[0] == 403
    code, made = await secured_api.as_user("agent", "POST", url, {**body, "spec": {}})
    assert (code, made["metadata"]["labels"]) == (201, {SET_LABEL: "default"})
    assert (await secured_api.as_user("agent", "PUT", f"{url}/c1", {**made, "spec": {"hubAcceptsClient": True}}))[
        0
    ] == 403
    code, kept = await secured_api.call("GET", f"{url}/c1")
    assert not kept["spec"].get("hubAcceptsClient")
