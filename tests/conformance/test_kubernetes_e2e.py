"""Which of Kubernetes' own conformance tests are left out is documented."""

from __future__ import annotations

import re
from pathlib import Path

from tools.conformance import read_selection

DIFFERENCES = Path(__file__).parents[2] / "docs" / "differences.md"


def test_every_excluded_test_is_documented_with_its_reason() -> None:
    excluded = read_selection().excluded
    rows = {f"- `{row.match.replace('|', ' or ')}`: {row.reason}" for row in excluded}

    assert rows <= set(DIFFERENCES.read_text().splitlines())


def test_selection_runs_conformance_tests_and_skips_excluded_ones() -> None:
    selection = read_selection()
    served = "[sig-auth] ServiceAccounts should update a ServiceAccount [Conformance]"
    excluded = "[sig-api-machinery] ResourceQuota [Serial] should capture the life of a pod. [Conformance]"

    assert re.search(selection.focus, served)
    assert not re.search(selection.skip, served)
    assert re.search(selection.skip, excluded)
