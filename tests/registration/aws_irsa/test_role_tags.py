"""What the hub can be configured with about IAM: tags that name no owner, patterns that cost little."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.options import (
    PATTERNS,
    is_allowed_arn,
    parse_tags,
    validate_patterns,
    validate_tags,
)


def test_key_ends_at_the_first_equals_sign() -> None:
    rows = ["product:v1:tenant:app-name=My-App", "team=fleet=west", "owner="]

    assert parse_tags(rows) == {"product:v1:tenant:app-name": "My-App", "team": "fleet=west", "owner": ""}


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        pytest.param("team", "write KEY=VALUE", id="no value"),
        pytest.param("=west", "write KEY=VALUE", id="no key"),
        pytest.param("te{am=west", "write KEY=VALUE", id="a character that IAM refuses"),
        pytest.param(f"{'a' * 129}=west", "at most 128", id="a long key"),
        pytest.param("hub_cluster_name=other", "is reserved", id="a tag that names the hub"),
        pytest.param("managed_cluster_name=other", "is reserved", id="a tag that names the cluster"),
        pytest.param("AWS:team=west", "is reserved", id="a prefix of AWS"),
        pytest.param("team=west,team=east", "has two values", id="two values"),
        pytest.param(",".join(f"k{number}=v" for number in range(46)), "too many", id="more than a role has room for"),
    ],
)
def test_tags_that_iam_would_refuse_are_refused_before(value: str, complaint: str) -> None:
    assert complaint in validate_tags(value)


def test_same_tag_twice_is_one() -> None:
    assert validate_tags("team=west,team=west") == ""


@pytest.mark.timeout(20)
def test_pattern_with_nested_repetitions_is_matched_in_linear_time() -> None:
    settings = {PATTERNS.flag: "arn:aws:eks:eu-central-1:444455556666:cluster/([a-z]+-?)+"}
    arn = EksClusterArn("aws", "eu-central-1", "444455556666", f"{'a' * 90}_")

    assert validate_patterns(settings[PATTERNS.flag]) == ""
    assert not is_allowed_arn(arn, settings)
    assert is_allowed_arn(replace(arn, name="edge-a"), settings)


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\1", "a)|(?:b", "["])
def test_pattern_that_cannot_be_matched_in_linear_time_is_refused(pattern: str) -> None:
    assert "is not a regular expression of RE2" in validate_patterns(pattern)
