"""The guides match the code: every reason is explained, and every shown ClusterRole is the real one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

from watchword.addons.definition import Grant
from watchword.addons.rbac import config_syncer, read_only_reporter, status_writer
from watchword.addons.token.agent import REASONS
from watchword.api import yaml

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "watchword"
ROOMS = ("addons",)
PLACES = {"true": 1, "false": 1, "unknown": 1, "warning": 1, "Pending": 0, "_failed": 0, "_complain": 1}
"""Which argument of which call is a reason."""


def reasons_in(path: Path) -> Iterable[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        place = PLACES.get(name)
        if place is None or len(node.args) <= place:
            continue
        argument = node.args[place]
        if isinstance(argument, ast.Constant) and re.fullmatch(r"([A-Z][A-Za-z]+)", str(argument.value)):
            yield str(argument.value)


def every_reason() -> set[str]:
    files = [path for room in ROOMS for path in (SOURCE / room).rglob("*.py")] + [
        SOURCE / "credentials/certificates/agent.py"
    ]
    return {reason for path in files for reason in reasons_in(path)} | {name for _, name in REASONS} | {"CSRDenied"}


@pytest.mark.parametrize("reason", sorted(every_reason()))
def test_reason_is_in_the_troubleshooting_guide(reason: str) -> None:
    assert f"`{reason}`" in (ROOT / "docs" / "troubleshooting-addons.md").read_text()


def test_enough_reasons_are_found() -> None:
    assert len(every_reason()) > 35


@pytest.mark.parametrize(
    ("name", "grant"),
    [
        pytest.param("read_only_reporter", read_only_reporter(), id="reporter"),
        pytest.param("status_writer", status_writer("report"), id="writer"),
        pytest.param("config_syncer", config_syncer("pull-secret"), id="syncer"),
    ],
)
def test_right_is_as_the_guide_shows_it(name: str, grant: Grant) -> None:
    page = (ROOT / "docs" / "howto" / "addon-rbac.md").read_text()
    shown = re.search(rf"`{name}\([^`]*`:\n\n```yaml\n(.*?)```", page, re.DOTALL)

    assert shown is not None
    assert yaml.load(shown[1])["rules"] == list(grant.rules)


def test_author_of_the_sample_writes_little() -> None:
    lines = (SOURCE / "addons" / "sample" / "hub.py").read_text().splitlines()

    assert len([line for line in lines if line.strip()]) <= 40
