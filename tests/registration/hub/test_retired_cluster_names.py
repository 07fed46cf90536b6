"""Whom the hub trusts under a name that an earlier cluster had, too."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from watchword.api.cluster import Cluster
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE, cluster_group, cluster_group_plain
from watchword.credentials.certificates.name_ownership import NameOwner, name_owner_patch, read_name_owner
from watchword.registration.hub.cluster_lease import lease_manifest
from watchword.registration.hub.cluster_rbac import (
    LONGEST_CERTIFICATE_LIFETIME,
    choose_subjects,
    clusters_with_retired_name,
    lease_end,
    retired_name_lease,
)
from watchword.testing.builders import a_cluster

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CLAIM = NameOwner("a1", "f" * 64, NOW)


def names(subjects: list[Object]) -> list[str]:
    return [row["name"] for row in subjects]


def test_agent_that_was_let_in_has_the_rights_and_its_group_has_none() -> None:
    subjects = choose_subjects(a_cluster("c1"), CLAIM, [])
    assert names(subjects) == ["system:open-cluster-management:c1:a1", cluster_group_plain("c1")]


def test_record_that_was_made_again_serves_the_agent_that_is_there() -> None:
    assert names(choose_subjects(a_cluster("c1"), None, [])) == [cluster_group("c1"), cluster_group_plain("c1")]


def test_name_is_leased_to_the_deleted_cluster_for_as_long_as_certificates_live() -> None:
    lease = retired_name_lease(Cluster.read(a_cluster("c1", uid="u1")), now=NOW)
    assert ObjectKey.of(lease) == ObjectKey(HUB_NAMESPACE, "retired-cluster-c1")
    assert lease["spec"]["holderIdentity"] == "u1"
    assert lease_end(lease) == NOW + LONGEST_CERTIFICATE_LIFETIME
    assert clusters_with_retired_name(lease) == [ObjectKey.cluster("c1")]


def test_agents_lease_is_not_taken_for_a_retired_name() -> None:
    assert clusters_with_retired_name(lease_manifest(Cluster.read(a_cluster("c1")), now=NOW)) == []


def test_claim_is_read_as_it_was_noted() -> None:
    noted = {**a_cluster("c1"), **name_owner_patch(a_cluster("c1"), CLAIM)}
    assert read_name_owner(noted) == CLAIM


@pytest.mark.parametrize("text", ["", "a1", "a1 key", "a1 key yesterday", "a1 key 2026-01-01T00:00:00Z more"])
def test_what_is_no_claim_is_none(text: str) -> None:
    cluster = a_cluster("c1")
    cluster["metadata"]["annotations"] = {"watchword.dev/first-key": text}
    assert read_name_owner(cluster) is None


def test_lease_without_an_instant_guards_nothing() -> None:
    lease = retired_name_lease(Cluster.read(a_cluster("c1")), now=NOW)
    assert lease_end({**lease, "spec": {"leaseDurationSeconds": 5}}) is None
    assert lease_end({**lease, "spec": {"acquireTime": "2026-01-01T00:00:00Z"}}) == NOW + timedelta(0)
