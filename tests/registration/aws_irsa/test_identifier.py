"""The identifier in the names of roles is the one of the design."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.registration.aws_irsa.documents import RoleTags
from watchword.registration.aws_irsa.errors import InvalidName

PART = st.from_regex(r"[0-9A-Za-z][0-9A-Za-z_-]{0,9}", fullmatch=True)
PAIR = st.tuples(PART, PART, PART, PART)


def test_identifier_of_the_example_in_the_design() -> None:
    tags = RoleTags("hubaccount1", "hubcluster1", "managedaccount1", "managedcluster1")

    assert tags.identifier == "79e99112993014816615711cbd35a9bc"


@pytest.mark.parametrize("value", ["", "a#b", "a/b", "a:b", "-a", "a b", "ä", "a" * 101, "a\n"])
@pytest.mark.parametrize("place", range(4))
def test_value_that_names_no_account_or_cluster_is_refused(value: str, place: int) -> None:
    values = ["111122223333", "fleet-hub", "444455556666", "edge-1"]
    values[place] = value

    with pytest.raises(InvalidName):
        RoleTags(*values)


@given(PAIR, PAIR)
def test_different_clusters_have_different_identifiers(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (RoleTags(*one).identifier == RoleTags(*other).identifier) == (one == other)
