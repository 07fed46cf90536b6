"""The pod that keeps a Deployment from running is named, with its own reason."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import DEPLOYMENTS, PODS
from watchword.health.facts import ProcessFacts
from watchword.health.processes import decide_deployment_problem, decide_process_findings
from watchword.operator.bundles import DASHBOARD
from watchword.operator.rendering import OPERATOR
from watchword.testing.virtual_time import EPOCH


def a_deployment(available: str = "False", **conditions: str) -> Object:
    rows = [{"type": "Available", "status": available}]
    rows += [{"type": name, "status": "True", "message": message} for name, message in conditions.items()]
    count = 1 if available == "True" else 0
    status = {"replicas": 1, "updatedReplicas": count, "availableReplicas": count, "conditions": rows}
    return DEPLOYMENTS.manifest(ObjectKey("hub", "controller"), status=status)


def a_pod(name: str = "controller-1", phase: str = "Pending", *, restarts: int = 0, **state: Any) -> Object:
    row = {"name": "main", "image": "r.test/w:x", "restartCount": restarts, "state": state, "lastState": {}}
    return PODS.manifest(ObjectKey("hub", name), status={"phase": phase, "containerStatuses": [row] if state else []})


def unscheduled(message: str) -> Object:
    rows = [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]
    return PODS.manifest(ObjectKey("hub", "controller-1"), status={"phase": "Pending", "conditions": rows})


def ready(name: str = "controller-1") -> Object:
    rows = [{"type": "Ready", "status": "True"}]
    return PODS.manifest(ObjectKey("hub", name), status={"phase": "Running", "conditions": rows})


IMAGE = {
    "reason": "ImagePullBackOff",
    "message": 'failed to pull and unpack image "r.test/w:x": failed to do request: lookup r.test: no such host',
}
UNPULLED = "cannot pull r.test/w:x from r.test: no such host; push the image there, or name another with --image"
CRASH = {"reason": "CrashLoopBackOff"}


@pytest.mark.parametrize(
    ("deployment", "pods", "reason", "command"),
    [
        pytest.param(
            a_deployment(),
            [unscheduled("0/1 nodes are available")],
            "pod hub/controller-1 is pending: 0/1 nodes are available",
            "kubectl -n hub describe pod controller-1",
            id="no node takes it",
        ),
        pytest.param(
            a_deployment(),
            [a_pod(waiting=IMAGE)],
            f"pod hub/controller-1 {UNPULLED}",
            "kubectl -n hub describe pod controller-1",
            id="its image is not there",
        ),
        pytest.param(
            a_deployment(),
            [a_pod(phase="Running", restarts=3, waiting=CRASH)],
            "pod hub/controller-1 waits: CrashLoopBackOff",
            "kubectl -n hub logs controller-1 --previous",
            id="it ends again and again",
        ),
        pytest.param(
            a_deployment("True"),
            [a_pod(phase="Running", restarts=3, waiting=CRASH)],
            "pod hub/controller-1 waits: CrashLoopBackOff",
            "kubectl -n hub logs controller-1 --previous",
            id="the Deployment has not noticed yet",
        ),
        pytest.param(
            a_deployment(),
            [a_pod(phase="Running", running={})],
            "pod hub/controller-1 runs and is not ready yet",
            "kubectl -n hub describe pod controller-1",
            id="it starts",
        ),
        pytest.param(
            a_deployment(ReplicaFailure="exceeded quota"),
            [],
            "Deployment hub/controller has no pod: exceeded quota",
            "kubectl -n hub describe deployment controller",
            id="no pod may be made",
        ),
    ],
)
def test_problem_is_named(deployment: Object, pods: list[Object], reason: str, command: str) -> None:
    problem = decide_deployment_problem(deployment, pods)

    assert problem is not None
    assert (problem.reason, problem.command) == (reason, command)


def rolling(**status: int) -> Object:
    return DEPLOYMENTS.manifest(
        ObjectKey("hub", "controller"),
        metadata={"generation": 2},
        status={"observedGeneration": 2, "conditions": [{"type": "Available", "status": "True"}], **status},
    )


@pytest.mark.parametrize(
    ("deployment", "reason"),
    [
        pytest.param(
            rolling(observedGeneration=1, replicas=1, updatedReplicas=1, availableReplicas=1),
            "the newest spec is not observed yet",
            id="the controller has not seen the new image",
        ),
        pytest.param(rolling(replicas=1, availableReplicas=1), "0 of 1 pods are updated", id="no new pod"),
        pytest.param(
            rolling(replicas=2, updatedReplicas=1, availableReplicas=1), "1 old pods still run", id="the old pod runs"
        ),
        pytest.param(
            rolling(replicas=1, updatedReplicas=1),
            "0 of 1 updated pods are available",
            id="the new pod is not available",
        ),
    ],
)
def test_a_roll_out_is_done_only_when_the_updated_pods_run(deployment: Object, reason: str) -> None:
    problem = decide_deployment_problem(deployment, [ready()])

    assert problem is not None
    assert problem.reason.startswith(f"Deployment hub/controller: {reason}")


def test_a_new_pod_that_cannot_start_is_named_while_the_old_one_serves() -> None:
    deployment = rolling(replicas=2, updatedReplicas=1, availableReplicas=1)

    problem = decide_deployment_problem(deployment, [ready(), a_pod("controller-2", waiting=IMAGE)])

    assert problem is not None
    assert problem.reason == f"pod hub/controller-2 {UNPULLED}"


def test_a_deployment_whose_roll_out_is_done_has_no_problem() -> None:
    assert decide_deployment_problem(a_deployment("True"), [ready()]) is None


@pytest.mark.parametrize(
    ("key", "reasons"),
    [pytest.param(DASHBOARD, [], id="dashboard"), pytest.param(OPERATOR, ["NoLeader"], id="operator")],
)
def test_lease_of_the_operator_is_expected_where_the_operator_runs(key: ObjectKey, reasons: list[str]) -> None:
    deployment = a_deployment("True") | {"metadata": {"namespace": key.namespace, "name": key.name}}

    found = decide_process_findings(ProcessFacts(deployments=[deployment]), (), (), now=EPOCH)

    assert [finding.reason for finding in found] == reasons
