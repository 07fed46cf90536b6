"""What is changed about a role that exists already."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from watchword.registration.aws_irsa.documents import (
    HUB_ARN_TAG,
    AgentAccounts,
    EksClusterArn,
    hub_role,
    managed_cluster_role,
)
from watchword.registration.aws_irsa.errors import ForeignRole
from watchword.registration.aws_irsa.iam import (
    RoleChange,
    StoredRole,
    decide_repairs,
    validate_deletion,
    validate_ownership,
)

HUB = EksClusterArn("aws", "us-west-2", "111122223333", "fleet-hub")
MANAGED = EksClusterArn("aws", "eu-central-1", "444455556666", "edge-1")
ROLE = managed_cluster_role(HUB, MANAGED, "oidc.example.com/id/1", AgentAccounts())
OTHER = managed_cluster_role(HUB, MANAGED, "oidc.example.com/id/2", AgentAccounts())
STORED = StoredRole(ROLE.arn, ROLE.trust, ROLE.access, ROLE.tags)
OTHER_PROVIDER = "arn:aws:iam::444455556666:oidc-provider/oidc.example.com/id/2"
FEDERATED_TWICE = {"Statement": {"Principal": {"Federated": [OTHER_PROVIDER, OTHER_PROVIDER]}}}


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(replace(STORED, arn="arn:aws:iam::444455556666:role/team/" + ROLE.name), id="under a path"),
        pytest.param(replace(STORED, trust=OTHER.trust), id="trusts another cluster"),
        pytest.param(replace(STORED, trust=FEDERATED_TWICE), id="trusts another cluster, in IAM's short form"),
    ],
)
def test_role_of_another_cluster_is_refused(stored: StoredRole) -> None:
    with pytest.raises(ForeignRole, match="delete"):
        decide_repairs(ROLE, stored)


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        pytest.param(STORED, (), id="nothing differs"),
        pytest.param(replace(STORED, tags={**ROLE.tags, "team": "a"}), (), id="a tag of another key"),
        pytest.param(replace(STORED, tags={}), (RoleChange.TAGS,), id="no tags"),
        pytest.param(
            replace(STORED, tags={**ROLE.tags, "hub_cluster_name": "x"}),
            (RoleChange.TAGS,),
            id="a tag of another value",
        ),
        pytest.param(replace(STORED, access=None), (RoleChange.ACCESS,), id="no access policy"),
        pytest.param(replace(STORED, access=OTHER.trust), (RoleChange.ACCESS,), id="another access policy"),
        pytest.param(
            replace(STORED, trust={"Statement": [{"Principal": "*"}]}), (RoleChange.TRUST,), id="trusts everyone"
        ),
        pytest.param(
            replace(STORED, trust={"Statement": ROLE.trust["Statement"] + OTHER.trust["Statement"]}),
            (RoleChange.TRUST,),
            id="trusts another cluster, too",
        ),
        pytest.param(
            StoredRole(ROLE.arn, {}, None, {}), (RoleChange.TRUST, RoleChange.TAGS, RoleChange.ACCESS), id="all differs"
        ),
    ],
)
def test_only_what_differs_is_repaired(stored: StoredRole, expected: tuple[Any, ...]) -> None:
    assert decide_repairs(ROLE, stored) == expected


OF_ANOTHER_REGION = hub_role(replace(HUB, region="us-east-1"), MANAGED)


@pytest.mark.parametrize("judge", [decide_repairs, validate_ownership, validate_deletion])
def test_role_of_another_hub_is_neither_adopted_nor_changed_nor_deleted(judge: Callable[..., object]) -> None:
    other = OF_ANOTHER_REGION
    stored = StoredRole(other.arn, other.trust, other.access, other.tags)
    wanted = hub_role(HUB, MANAGED)
    assert wanted.arn == stored.arn

    with pytest.raises(ForeignRole, match="belongs to hub arn:aws:eks:us-east-1"):
        judge(wanted, stored)


@pytest.mark.parametrize("judge", [validate_ownership, validate_deletion])
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"trust": {"Version": "2012-10-17", "Statement": []}}, id="another trust policy"),
        pytest.param({"access": OF_ANOTHER_REGION.access}, id="the access policy of a hub in another region"),
    ],
)
def test_role_without_the_tag_of_a_hub_is_adopted_only_with_the_expected_policies(
    judge: Callable[..., object], changes: dict[str, Any]
) -> None:
    role = hub_role(HUB, MANAGED)
    tags = {key: value for key, value in role.tags.items() if key != HUB_ARN_TAG}
    stored = StoredRole(role.arn, role.trust, role.access, tags)

    judge(role, stored)
    with pytest.raises(ForeignRole):
        judge(role, replace(stored, **changes))


def test_role_of_an_earlier_version_gets_the_tag_of_its_hub() -> None:
    role = hub_role(HUB, MANAGED)
    tags = {key: value for key, value in role.tags.items() if key != HUB_ARN_TAG}
    stored = StoredRole(role.arn, role.trust, role.access, tags)

    validate_ownership(role, stored)
    assert decide_repairs(role, stored) == (RoleChange.TAGS,)
