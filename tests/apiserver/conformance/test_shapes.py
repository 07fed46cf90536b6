"""Every recorded request shape is answered as the real kube-apiserver answered it, field by field."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from watchword.testing.plane import Plane
from watchword.testing.shapes import Replay, differences, read_scenario

HERE = Path(__file__).parent
SCENARIOS = sorted((HERE / "shapes").glob("*.yaml"))
ACCEPTED: dict[str, str] = yaml.safe_load((HERE / "accepted_differences.yaml").read_text()) or {}
RECORD = bool(os.environ.get("WATCHWORD_RECORD_SHAPES"))


def recorded(scenario: Path) -> Path:
    return HERE / "recorded" / f"{scenario.stem}.json"


def load(path: Path) -> dict[str, Any]:
    answers: dict[str, Any] = orjson.loads(path.read_bytes())
    return answers


def save(path: Path, answers: dict[str, Any]) -> None:
    path.write_bytes(orjson.dumps(answers, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))


@pytest.mark.parametrize("scenario", [pytest.param(path, id=path.stem) for path in SCENARIOS])
async def test_shapes_are_answered_as_recorded(plane: Plane, scenario: Path) -> None:
    replay = Replay(plane.client().transport, await plane.namespace(f"shapes-{scenario.stem}"))

    answers = {shape.name: await replay.answer(shape) for shape in read_scenario(scenario)}

    if RECORD:
        save(recorded(scenario), answers)
    found = [
        f"{name}{line}"
        for name, expected in load(recorded(scenario)).items()
        for line in differences(expected, answers[name])
        if f"{scenario.stem}/{name}" not in ACCEPTED
    ]
    assert found == []


def test_every_accepted_difference_names_a_recorded_shape_and_a_reason() -> None:
    known = {f"{path.stem}/{shape.name}" for path in SCENARIOS for shape in read_scenario(path)}

    assert set(ACCEPTED) <= known
    assert all(reason.strip() for reason in ACCEPTED.values())
    assert len(ACCEPTED) <= 15


def test_at_least_three_hundred_shapes_are_compared() -> None:
    assert sum(len(read_scenario(path)) for path in SCENARIOS) >= 300
