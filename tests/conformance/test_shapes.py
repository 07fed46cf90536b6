"""Every recorded request shape is answered as the real kube-apiserver answered it, field by field."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml
from tests.conformance.normalize import differences
from tests.conformance.replay import Answer, play
from tests.conformance.request_shapes import read_scenario

from watchword.testing.embedded_backend import open_embedded
from watchword.testing.kube_apiserver_backend import KUBERNETES_VERSION, chosen_release
from watchword.testing.plane import Plane

HERE = Path(__file__).parent
SCENARIOS = sorted((HERE / "shapes").glob("*.yaml"))
ACCEPTED: dict[str, dict[str, Any]] = yaml.safe_load((HERE / "accepted_differences.yaml").read_text()) or {}
EXPLAINED = HERE.parents[1] / "docs" / "differences.md"
EVERYWHERE = ACCEPTED.pop("everywhere")
LEFT_OUT = tuple(ending for row in EVERYWHERE["at"] for ending in row)
RECORD = bool(os.environ.get("WATCHWORD_RECORD_SHAPES"))
MOST_ACCEPTED = 15


def golden(scenario: Path) -> dict[str, Answer]:
    answers: dict[str, Answer] = orjson.loads((HERE / "golden" / f"{scenario.stem}.json").read_bytes())
    return answers


def record(scenario: Path, answers: dict[str, Answer]) -> None:
    """Write one line per shape, so that a changed response is a changed line."""
    lines = [f"{orjson.dumps(name).decode()}: {orjson.dumps(answer).decode()}" for name, answer in answers.items()]
    (HERE / "golden" / f"{scenario.stem}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


def compared(scenario: Path, expected: dict[str, Answer], found: dict[str, Answer]) -> tuple[list[str], set[str]]:
    """Return the differences that are not accepted, and the accepted ones that occurred."""
    unexpected: list[str] = []
    met: set[str] = set()
    assert list(expected) == list(found), "the shapes were changed: run `make conformance-record`"
    for name, path, line in _every_difference(expected, found):
        accepted = [f"{scenario.stem}/{name}"] if path.startswith(_places(scenario, name)) else []
        met.update(accepted)
        unexpected += [] if accepted else [f"{name}{path}: {line}"]
    return unexpected, met


def _every_difference(expected: dict[str, Answer], found: dict[str, Answer]) -> Iterator[tuple[str, str, str]]:
    for name, answer in expected.items():
        for path, line in differences(answer, found[name]):
            if not path.endswith(LEFT_OUT):
                yield name, path, line


def _places(scenario: Path, name: str) -> tuple[str, ...]:
    return tuple(ACCEPTED.get(f"{scenario.stem}/{name}", {}).get("at", ()))


@pytest.mark.parametrize("scenario", [pytest.param(path, id=path.stem) for path in SCENARIOS])
async def test_shapes_are_answered_as_recorded(plane: Plane, scenario: Path, tmp_path: Path) -> None:
    if plane.name == "kube-apiserver" and chosen_release() != KUBERNETES_VERSION:
        pytest.skip(f"the recording is of Kubernetes {KUBERNETES_VERSION}; releases word their answers differently")
    shapes = read_scenario(scenario)
    answers = await play(plane, shapes)
    if plane.name == "kube-apiserver":
        if RECORD:
            record(scenario, answers)
        assert [f"{name}{path}: {line}" for name, path, line in _every_difference(golden(scenario), answers)] == []
        async with open_embedded(tmp_path, listening=False) as beside:
            expected, answers = answers, await play(Plane(beside, private=True), shapes)
    else:
        expected = golden(scenario)

    unexpected, met = compared(scenario, expected, answers)

    assert not unexpected, "\n".join(unexpected)
    assert {key for key in ACCEPTED if key.startswith(f"{scenario.stem}/")} - met == set(), "no longer differ"


def test_the_shapes_are_many_and_the_accepted_differences_few() -> None:
    known = {f"{path.stem}/{shape.name}" for path in SCENARIOS for shape in read_scenario(path).shapes}

    assert len(known) >= 300
    assert set(ACCEPTED) <= known
    assert len(ACCEPTED) <= MOST_ACCEPTED


@pytest.mark.parametrize("accepted", [*ACCEPTED.values(), EVERYWHERE], ids=[*ACCEPTED, "everywhere"])
def test_every_accepted_difference_is_explained_to_users(accepted: dict[str, Any]) -> None:
    assert accepted["because"] in EXPLAINED.read_text()
