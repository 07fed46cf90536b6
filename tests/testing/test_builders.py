"""Builders make objects that a control plane takes as they are."""

from __future__ import annotations

from datetime import UTC, datetime

from tests.helpers.leases import a_lease

from watchword.testing.builders import a_cluster, a_cluster_role_binding, a_secret


def test_secret_holds_its_values_encoded() -> None:
    assert a_secret("s", namespace="n", data={"a": "1", "b": b"\xff"}, labels={"x": "y"}) == {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "s", "namespace": "n", "labels": {"x": "y"}},
        "type": "Opaque",
        "data": {"a": "MQ==", "b": "/w=="},
    }


def test_built_cluster_is_not_accepted_by_default() -> None:
    assert a_cluster("edge-1")["spec"]["hubAcceptsClient"] is False
    assert a_cluster("edge-1", accepted=True)["spec"]["hubAcceptsClient"] is True


def test_lease_contains_its_renew_time() -> None:
    lease = a_lease(namespace="edge-1", renewed_at=datetime(2026, 1, 1, tzinfo=UTC))

    assert lease["metadata"] == {"name": "managed-cluster-lease", "namespace": "edge-1"}
    assert lease["spec"] == {"leaseDurationSeconds": 60, "renewTime": "2026-01-01T00:00:00.000000Z"}


def test_binding_names_users_and_groups() -> None:
    binding = a_cluster_role_binding("b", role="view", users=["eve"], groups=["ops"])

    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [
        ("User", "eve"),
        ("Group", "ops"),
    ]
