"""Deployments, replica sets, jobs and cron jobs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from watchword.api.meta import Object

CONTAINER = {"name": "c", "image": "a:1"}
LABELS = {"app": "x"}


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


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        pytest.param(
            {"selector": {}}, ["spec.selector: Invalid value: {}: empty selector is invalid for deployment"], id="empty"
        ),
        pytest.param(
            {"selector": {"matchLabels": {"app": "y"}}},
            ['spec.template.metadata.labels: Invalid value: {"app":"x"}: `selector` does not match template `labels`'],
            id="selector misses the template",
        ),
        pytest.param(
            {"replicas": -1, "minReadySeconds": -1},
            [
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="negative numbers",
        ),
        pytest.param(
            {"strategy": {"type": "Recreate", "rollingUpdate": {}}},
            [
                "spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'",
            ],
            id="rolling limits of a recreation",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}},
            [
                "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0",
            ],
            id="no room to roll",
        ),
        pytest.param(
            {"strategy": {"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "200%"}}},
            [
                (
                    'spec.strategy.rollingUpdate.maxSurge: Invalid value: "x": a valid percent string must be a '
                    "numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for "
                    "validation is '[0-9]+%')"
                ),
                'spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "200%": must not be greater than 100%',
            ],
            id="percentages",
        ),
    ],
)
def test_deployments_that_are_refused(kind_harness: Any, spec: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Deployment.apps", deployment(**spec))

    assert errors == complaints


def test_empty_deployment_gets_an_error_for_each_missing_field(kind_harness: Any) -> None:
    _, errors = kind_harness.write("Deployment.apps", {})

    assert errors == [
        "spec.selector: Required value",
        "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
        "spec.template.spec.containers: Required value",
    ]


def test_the_selector_of_a_deployment_never_changes(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Deployment.apps", deployment())
    body = deepcopy(old)
    body["spec"]["selector"] = {"matchLabels": {"app": "x", "more": "y"}}
    body["spec"]["template"]["metadata"]["labels"]["more"] = "y"

    _, errors = kind_harness.write("Deployment.apps", body, old=old)

    assert errors == ['spec.selector: Invalid value: {"matchLabels":{"app":"x","more":"y"}}: field is immutable']


def test_spec_and_status_change_under_their_own_endpoints(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Deployment.apps", deployment())
    body = deepcopy(old)
    body["spec"]["replicas"], body["status"] = 5, {"replicas": 3}

    by_spec, _ = kind_harness.write("Deployment.apps", body, old=old)
    by_status, _ = kind_harness.write("Deployment.apps", body, old=old, subresource="status")

    assert (by_spec["spec"]["replicas"], by_spec["status"]) == (5, {})
    assert (by_status["spec"]["replicas"], by_status["status"]) == (1, {"replicas": 3})


def test_a_changed_annotation_of_a_deployment_is_a_new_generation(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Deployment.apps", deployment())
    old["metadata"]["generation"] = 4
    body = deepcopy(old)
    body["metadata"]["annotations"] = {"a": "b"}

    annotated, _ = kind_harness.write("Deployment.apps", body, old=old)
    unchanged, _ = kind_harness.write("Deployment.apps", old, old=old)

    assert (annotated["metadata"]["generation"], unchanged["metadata"]["generation"]) == (5, 4)


def test_a_replica_set_takes_the_labels_of_its_template(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("ReplicaSet.apps", deployment())

    assert errors == []
    assert (stored["metadata"]["labels"], stored["status"]) == (LABELS, {"replicas": 0})


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


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        pytest.param(
            {"template": {"spec": {"containers": [CONTAINER]}}},
            ['spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"'],
            id="no restart policy",
        ),
        pytest.param(
            {"completionMode": "X", "parallelism": -1},
            [
                "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                'spec.completionMode: Unsupported value: "X": supported values: "NonIndexed", "Indexed"',
            ],
            id="counts and modes",
        ),
        pytest.param(
            {"manualSelector": True, "selector": {"matchLabels": {"a": "b"}}},
            ["spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"],
            id="a chosen selector must fit",
        ),
    ],
)
def test_jobs_that_are_refused(kind_harness: Any, spec: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Job.batch", job(**spec))

    assert errors == complaints


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
