"""Pods, deployments, jobs and cron jobs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from watchword.api.meta import Object

CONTAINER = {"name": "c", "image": "a:1"}
LABELS = {"app": "x"}


DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments"
MERGE = {"Content-Type": "application/merge-patch+json"}


def deployment(**spec: Any) -> Object:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    return {"spec": {"selector": {"matchLabels": LABELS}, "template": template, **spec}}


def job(**spec: Any) -> Object:
    return {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}, **spec}}


def test_a_deployment_is_filled_as_a_cluster_fills_it(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Deployment.apps", deployment(replicas=0))

    pod = stored["spec"]["template"]["spec"]
    assert errors == []
    assert stored["status"] == {}
    assert stored["spec"]["replicas"] == 0
    assert stored["spec"]["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (stored["spec"]["revisionHistoryLimit"], stored["spec"]["progressDeadlineSeconds"]) == (10, 600)
    assert pod == {
        "containers": [
            {
                **CONTAINER,
                "resources": {},
                "imagePullPolicy": "IfNotPresent",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }
        ],
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }


def test_empty_deployment_gets_an_error_for_each_missing_field(kind_harness: Any) -> None:
    _, errors = kind_harness.write("Deployment.apps", {})

    assert errors == [
        "spec.selector: Required value",
        "spec.template.spec.containers: Required value",
    ]


async def test_spec_and_status_change_under_their_own_endpoints(api: Any) -> None:
    await api.ask("POST", DEPLOYMENT, {"metadata": {"name": "d"}, **deployment()})
    change = {"spec": {"replicas": 5}, "status": {"replicas": 3}}

    by_status = await api.ask("PATCH", f"{DEPLOYMENT}/d/status", change, headers=MERGE)
    by_spec = await api.ask("PATCH", f"{DEPLOYMENT}/d", {**change, "status": {"replicas": 4}}, headers=MERGE)

    assert (by_status["spec"]["replicas"], by_status["status"]) == (1, {"replicas": 3})
    assert (by_spec["spec"]["replicas"], by_spec["status"]) == (5, {"replicas": 3})


async def test_patch_of_a_scale_that_names_no_size_keeps_the_size(api: Any) -> None:
    await api.ask("POST", DEPLOYMENT, {"metadata": {"name": "d"}, **deployment(replicas=3)})

    scale = await api.ask("PATCH", f"{DEPLOYMENT}/d/scale", {"metadata": {}}, headers=MERGE)
    resized = await api.ask("PATCH", f"{DEPLOYMENT}/d/scale", {"spec": {"replicas": None}}, headers=MERGE)

    assert (scale["spec"], resized["spec"]) == ({"replicas": 3}, {})


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        pytest.param({"spec": ["replicas"]}, 400, id="spec is a list"),
        pytest.param({"spec": {"replicas": 1}, "metadata": "d"}, 400, id="metadata is a text"),
        pytest.param({"spec": {"replicas": "2"}}, 422, id="size is a text"),
    ],
)
async def test_scale_that_cannot_be_read_is_refused(api: Any, method: str, body: Object, code: int) -> None:
    await api.ask("POST", DEPLOYMENT, {"metadata": {"name": "d"}, **deployment(replicas=3)})
    headers = MERGE if method == "PATCH" else {}

    refused = await api.ask(method, f"{DEPLOYMENT}/d/scale", body, headers=headers)

    assert (refused["code"], (await api.ask("GET", f"{DEPLOYMENT}/d/scale"))["spec"]) == (code, {"replicas": 3})


def test_a_job_selects_its_pods_by_its_own_uid(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Job.batch", job())

    labels = {
        "batch.kubernetes.io/controller-uid": "uid-1",
        "batch.kubernetes.io/job-name": "thing",
        "controller-uid": "uid-1",
        "job-name": "thing",
    }
    assert errors == []
    assert stored["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "uid-1"}}
    assert stored["spec"]["template"]["metadata"]["labels"] == stored["metadata"]["labels"] == labels
    assert (stored["spec"]["completions"], stored["spec"]["backoffLimit"]) == (1, 6)


def test_a_cron_job_is_filled_and_its_template_left_a_template(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("CronJob.batch", {"spec": {"schedule": "@hourly", "jobTemplate": job()}})

    assert errors == []
    assert (stored["spec"]["concurrencyPolicy"], stored["spec"]["suspend"]) == ("Allow", False)
    assert (stored["spec"]["successfulJobsHistoryLimit"], stored["spec"]["failedJobsHistoryLimit"]) == (3, 1)
    assert "backoffLimit" not in stored["spec"]["jobTemplate"]["spec"]


def test_a_cron_job_with_a_bad_schedule_and_zone_is_refused(kind_harness: Any) -> None:
    spec = {"schedule": "* * * *", "timeZone": "x", "jobTemplate": job()}

    _, errors = kind_harness.write("CronJob.batch", {"spec": spec})

    assert errors == [
        'spec.schedule: Invalid value: "* * * *": expected exactly 5 fields, found 4: [* * * *]',
        'spec.timeZone: Invalid value: "x": unknown time zone x',
    ]


def test_new_pod_is_pending(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Pod", {"spec": {"containers": [CONTAINER]}, "status": {"phase": "Running"}})

    assert errors == []
    assert stored["status"] == {"phase": "Pending"}


def test_what_the_table_requires_is_required_at_every_depth(kind_harness: Any) -> None:
    container = {"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": ""}]}

    _, errors = kind_harness.write("Pod", {"spec": {"containers": [container]}})
    _, without = kind_harness.write("Pod", {"spec": {}})

    assert errors == ["spec.containers[0].volumeMounts[0].mountPath: Required value"]
    assert without == ["spec.containers: Required value"]


def test_of_a_stored_pod_only_the_image_changes(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Pod", {"spec": {"containers": [CONTAINER]}})
    repainted, renamed = deepcopy(old), deepcopy(old)
    repainted["spec"]["containers"][0]["image"] = "a:2"
    renamed["spec"]["hostNetwork"] = True

    _, fine = kind_harness.write("Pod", repainted, old=old)
    _, refused = kind_harness.write("Pod", renamed, old=old)

    assert fine == []
    assert len(refused) == 1
    assert refused[0].startswith("spec: Forbidden: pod updates may not change fields other than")


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("nginx", "Always", id="no tag"),
        pytest.param("r:5000/nginx:latest", "Always", id="latest"),
        pytest.param("r:5000/nginx", "Always", id="a port is no tag"),
        pytest.param("nginx:1", "IfNotPresent", id="tag"),
        pytest.param("nginx@sha256:00", "IfNotPresent", id="digest"),
    ],
)
def test_pull_policy(kind_harness: Any, image: str, policy: str) -> None:
    stored, _ = kind_harness.write("Pod", {"spec": {"containers": [{"name": "c", "image": image}]}})

    assert stored["spec"]["containers"][0]["imagePullPolicy"] == policy
