"""Deployments run: replica sets, pods and containers follow what they ask for."""

from __future__ import annotations

from typing import Any

from tests.apiserver.node.conftest import NodeHarness, TaskContainer, a_template

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CORE_EVENTS, DEPLOYMENTS, NODES, PODS, SERVICE_ACCOUNTS
from watchword.apiserver.kinds.catalog import REPLICA_SETS
from watchword.apiserver.node.deployments import template_hash


def a_deployment_spec(replicas: int = 1, template: Object | None = None, **spec: Any) -> Object:
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "a"}},
        "template": template or a_template(),
        **spec,
    }


async def test_a_deployment_of_ours_becomes_a_replica_set_pods_and_containers(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(2))

    status = harness.get(DEPLOYMENTS, "web")["status"]
    assert (status["replicas"], status["updatedReplicas"], status["availableReplicas"]) == (2, 2, 2)
    assert status["observedGeneration"] == harness.get(DEPLOYMENTS, "web")["metadata"]["generation"]
    assert {pod["status"]["phase"] for pod in harness.pods()} == {"Running"}
    assert len(harness.runner.started) == 2
    progressing = find_condition(harness.get(DEPLOYMENTS, "web"), "Progressing")
    assert progressing is not None
    assert progressing.reason == "NewReplicaSetAvailable"
    assert harness.get(NODES, "watchword", "")["status"]["conditions"][0]["type"] == "Ready"


async def test_another_image_stays_pending_and_an_event_says_why(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(1, a_template(container={"image": "nginx:1"})))

    (pod,) = harness.pods()
    (event,) = [e for e in harness.registry.list(CORE_EVENTS, "apps") if e["reason"] == "ImageNotServed"]
    assert pod["status"]["phase"] == "Pending"
    assert event["involvedObject"]["name"] == pod["metadata"]["name"]
    assert "'nginx:1' is not served" in event["message"]
    assert harness.runner.started == []


async def test_a_new_template_replaces_the_pods_without_a_gap(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(2))
    before = {pod["metadata"]["name"] for pod in harness.pods()}

    def change(deployment: Object) -> None:
        deployment["spec"]["template"]["spec"]["containers"][0]["args"] = ["hub", "--no-install"]

    await harness.changes(DEPLOYMENTS, "web", change)

    assert {pod["metadata"]["name"] for pod in harness.pods()}.isdisjoint(before)
    assert [c.launch.arguments for c in harness.runner.started[2:]] == [("hub", "--no-install")] * 2
    sets = harness.registry.list(REPLICA_SETS, "apps")
    assert sorted(each["spec"]["replicas"] for each in sets) == [0, 2]
    assert harness.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"


async def test_the_template_before_comes_back_as_the_newest_revision(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(1))

    def arguments(*texts: str) -> Any:
        return lambda d: d["spec"]["template"]["spec"]["containers"][0].update(args=list(texts))

    await harness.changes(DEPLOYMENTS, "web", arguments("hub", "--no-install"))
    await harness.changes(DEPLOYMENTS, "web", arguments("hub"))

    assert len(harness.registry.list(REPLICA_SETS, "apps")) == 2
    assert harness.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


async def test_scaling_down_stops_containers_and_scaling_to_none_stops_all(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(3))

    await harness.changes(DEPLOYMENTS, "web", lambda d: d["spec"].update(replicas=1))
    assert len(harness.pods()) == 1
    await harness.changes(DEPLOYMENTS, "web", lambda d: d["spec"].update(replicas=0))

    assert harness.pods() == []
    assert all(container.ended.done() for container in harness.runner.started)


async def test_deleting_a_deployment_takes_everything_with_it(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(2))

    await harness.registry.delete(DEPLOYMENTS, ObjectKey("apps", "web"))
    await harness.settles(5)

    assert (harness.registry.list(REPLICA_SETS, "apps"), harness.pods()) == ([], [])
    assert all(container.ended.done() for container in harness.runner.started)
    assert list(harness.settings.folder.iterdir()) == []


async def test_a_deleted_pod_is_replaced(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(1))
    (first,) = harness.pods()

    await harness.registry.delete(PODS, ObjectKey.of(first))
    await harness.settles(5)

    (second,) = harness.pods()
    assert second["metadata"]["name"] != first["metadata"]["name"]
    assert second["status"]["phase"] == "Running"


async def test_failing_rollout_is_reported_and_keeps_the_old_pods(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(1, progressDeadlineSeconds=60))
    harness.runner.make = lambda launch: TaskContainer(launch, well=False)
    probe = {"httpGet": {"path": "/readyz", "port": 8000}}

    def change(deployment: Object) -> None:
        deployment["spec"]["template"]["spec"]["containers"][0]["readinessProbe"] = probe

    await harness.changes(DEPLOYMENTS, "web", change)
    await harness.settles(120)

    progressing = find_condition(harness.get(DEPLOYMENTS, "web"), "Progressing")
    assert progressing is not None
    assert (progressing.status, progressing.reason) == ("False", "ProgressDeadlineExceeded")
    assert harness.get(DEPLOYMENTS, "web")["status"]["availableReplicas"] == 1


async def test_a_pod_whose_account_is_missing_waits_for_it(harness: NodeHarness) -> None:
    await harness.has(DEPLOYMENTS, "web", "apps", spec=a_deployment_spec(1, a_template(serviceAccountName="web-sa")))
    assert harness.pods() == []
    assert "FailedCreate" in {event["reason"] for event in harness.registry.list(CORE_EVENTS, "apps")}

    await harness.has(SERVICE_ACCOUNTS, "web-sa", "apps")
    await harness.settles(6)

    assert len(harness.pods()) == 1


def test_equal_templates_have_equal_hashes() -> None:
    assert template_hash({"a": 1, "b": 2}) == template_hash({"b": 2, "a": 1})
    assert template_hash({"a": 1}) != template_hash({"a": 2})
