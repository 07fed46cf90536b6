"""Documentation does not rot: links lead somewhere, and the commands it names exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tools.docs import MAX_WORDS, broken_links, count_words, pages

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"[\w-]+/[\w-]+@(?:v\d+\.\d+\.\d+|[0-9a-f]{40})")


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in pages(ROOT)])
def test_links_lead_somewhere(page: str) -> None:
    assert broken_links(ROOT / page) == []


@pytest.mark.parametrize("page", [str(page.relative_to(ROOT)) for page in pages(ROOT)])
def test_make_targets_that_are_named_exist(page: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = re.findall(
        r"`make ([a-z -]+?)`|^\$ make ([a-z -]+?)\s*(?:#.*)?$", (ROOT / page).read_text(), re.MULTILINE
    )
    named = {target for pair in commands for command in pair for target in command.split()}

    assert named <= targets


def test_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading\n[here](page.md#a-heading) [gone](missing.md#part) [part](#missing) [web](https://example.com/x) "
        "`[code](not-a-link)`\n"
    )

    assert broken_links(page) == ["missing.md#part", "#missing"]


def test_documentation_is_no_longer_than_agreed() -> None:
    assert sum(count_words(ROOT).values()) <= MAX_WORDS, "shorten a page: `python -m tools.docs --words` counts them"


def test_ci_runs_the_readme_s_test_command() -> None:
    readme = re.findall(r"^\$ (make \w+)", (ROOT / "README.md").read_text(), re.MULTILINE)
    ci = [line.strip() for line in (ROOT / ".ci" / "run").read_text().splitlines()]

    assert readme == ["make up", "make test"]
    assert "make test" in ci
    assert "make test-slow" in ci
    assert "make test-envtest" in ci


def test_workflow_runs_what_ci_runs_with_read_rights_and_pinned_actions() -> None:
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    workflow = yaml.safe_load(text)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]

    assert steps[-1]["run"] == ".ci/run"
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in text
    assert [uses for step in steps if (uses := step.get("uses")) and not PINNED.fullmatch(uses)] == []
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_security_policy_is_linked(page: str) -> None:
    assert "](SECURITY.md)" in (ROOT / page).read_text()
