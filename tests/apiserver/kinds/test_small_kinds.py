"""Namespaces, events and leases."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object


def test_a_new_namespace_is_active_labelled_and_finalized(kind_harness: Any) -> None:
    stored, errors = kind_harness.write("Namespace", {"metadata": {"name": "blue"}, "status": {"phase": "Terminating"}})

    assert errors == []
    assert stored["metadata"]["labels"] == {"kubernetes.io/metadata.name": "blue"}
    assert (stored["spec"], stored["status"]) == ({"finalizers": ["kubernetes"]}, {"phase": "Active"})


def test_only_the_finalize_endpoint_changes_the_finalizers_of_a_namespace(kind_harness: Any) -> None:
    old, _ = kind_harness.write("Namespace", {})
    body = {**old, "spec": {"finalizers": []}, "status": {"phase": "Terminating"}}

    updated, _ = kind_harness.write("Namespace", body, old=old)
    finalized, _ = kind_harness.write("Namespace", body, old=old, subresource="finalize")

    assert updated["spec"] == {"finalizers": ["kubernetes"]}
    assert finalized["spec"] == {}
    assert updated["status"] == finalized["status"] == {"phase": "Active"}


def test_an_event_of_either_group_is_the_same_stored_object(kind_harness: Any) -> None:
    modern = kind_harness.kind("Event.events.k8s.io")
    body = {"regarding": {"kind": "Pod", "name": "p", "namespace": "default"}, "note": "hello", "type": "Normal"}
    shaped, _ = kind_harness.write("Event.events.k8s.io", body)

    stored = modern.to_stored(shaped)

    assert (stored["apiVersion"], stored["message"], stored["involvedObject"]["name"]) == ("v1", "hello", "p")
    assert {"firstTimestamp", "lastTimestamp", "source", "reportingComponent"} <= stored.keys()
    assert modern.from_stored(stored) == {**shaped, "apiVersion": "events.k8s.io/v1"}


@pytest.mark.parametrize(
    ("kind", "event", "complaints"),
    [
        pytest.param(
            "Event",
            {"involvedObject": {"namespace": "other"}},
            ['involvedObject.namespace: Invalid value: "other": does not match event.namespace'],
            id="another namespace",
        ),
        pytest.param("Event", {"involvedObject": {}}, [], id="a cluster-scoped object in default"),
    ],
)
def test_events(kind_harness: Any, kind: str, event: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write(kind, event)

    assert errors == complaints


@pytest.mark.parametrize(
    ("spec", "complaints"),
    [
        pytest.param({"leaseDurationSeconds": 15, "holderIdentity": "me"}, [], id="plain"),
        pytest.param(
            {"leaseDurationSeconds": 0, "leaseTransitions": -1},
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ],
            id="numbers out of range",
        ),
    ],
)
def test_leases(kind_harness: Any, spec: Object, complaints: list[str]) -> None:
    _, errors = kind_harness.write("Lease.coordination.k8s.io", {"spec": spec})

    assert errors == complaints
