"""Workloads seen as a Scale."""

from __future__ import annotations

from watchword.api.meta import Object
from watchword.apiserver.serving.scale import resize, scale_errors, scale_of

PATHS = ("spec.replicas", "status.replicas", "spec.selector")


def workload() -> Object:
    return {
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "5", "labels": {"a": "b"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}},
        "status": {"replicas": 1},
    }


def test_a_scale_shows_two_numbers_a_selector_and_whose_they_are() -> None:
    assert scale_of(workload(), PATHS) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {"name": "w", "namespace": "n", "uid": "u", "resourceVersion": "5"},
        "spec": {"replicas": 2},
        "status": {"replicas": 1, "selector": "app=x"},
    }


def test_a_custom_kind_may_keep_its_selector_as_text_or_not_at_all() -> None:
    custom = {"metadata": {"name": "w"}, "status": {"labels": "app=y"}}

    assert scale_of(custom, ("spec.size", "status.size", "status.labels"))["status"] == {
        "replicas": 0,
        "selector": "app=y",
    }
    assert scale_of(custom, ("spec.size", "status.size", ""))["status"] == {"replicas": 0}


def test_resizing_changes_nothing_but_the_number() -> None:
    resized = workload()

    resize(resized, {"spec": {"replicas": 7}}, PATHS)

    assert resized == {**workload(), "spec": {**workload()["spec"], "replicas": 7}}


def test_a_scale_without_replicas_means_none() -> None:
    resized: Object = {}

    resize(resized, {"spec": {}}, ("spec.deep.size", "", ""))

    assert resized == {"spec": {"deep": {"size": 0}}}


def test_there_are_no_negative_sizes() -> None:
    assert [str(error) for error in scale_errors({"spec": {"replicas": -2}})] == [
        "spec.replicas: Invalid value: -2: must be greater than or equal to 0"
    ]
