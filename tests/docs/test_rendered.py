"""Every file that is rendered from code is up to date."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.docs import rendered
from tools.reasons import Sources, UnreadableReasonError, read_sources

ROOT = Path(__file__).parents[2]
REFERENCES = ("cli.md", "api.md", "conditions.md", "rights.md", "metrics.md")
FILES = (
    ".importlinter",
    "src/watchword/dashboard/assets/reasons.json",
    *(f"docs/reference/{name}" for name in REFERENCES),
)
ABOUT_CLUSTERS = (
    "HubAcceptedManagedCluster",
    "ManagedClusterConditionAvailable",
    "ManagedClusterConditionClockSynced",
    "ClusterCertificateRotated",
)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return {str(path.relative_to(ROOT)): text for path, text in rendered(ROOT).items()}


@pytest.mark.parametrize("name", FILES)
def test_committed_file_equals_the_rendered_one(name: str, pages: dict[str, str]) -> None:
    assert (ROOT / name).read_text() == pages[name], f"{name} is out of date: run make docs"


def test_every_rendered_file_is_compared(pages: dict[str, str]) -> None:
    assert sorted(pages) == sorted(FILES)


@pytest.fixture
def read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Sources]]:
    """Read a package of one module that can import the product."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "example").mkdir()

    def read(source: str) -> Sources:
        (tmp_path / "example" / "promise.py").write_text(HEAD + source)
        return Sources(tmp_path / "example")

    yield read
    for name in ("example", "example.promise"):
        sys.modules.pop(name, None)


HEAD = """
from watchword.api.conditions import Condition
from watchword.api.names import ConditionType

class Refused(Exception):
    def __init__(self, reason, message):
        self.reason = reason
"""
EXAMPLE = """
GOOD = "AllThere"
KINDS = ((KeyError, "NoKey"), (OSError, "NoFile"))

def judge(thing):
    if thing:
        return Condition.true(ConditionType.JOINED, GOOD, "everything is there")
    return say(thing) or say(thing, "Missing", f"waiting for {thing}")

def say(thing, reason="Absent", message="nothing", *, now=None):
    return Condition.false(ConditionType.JOINED, reason, message)

def guess(now):
    reason = "Early"
    if now:
        reason = "Late"
    return Condition.unknown(ConditionType.JOINED, reason, str(now))

def explain(error):
    reason = next(reason for kind, reason in KINDS if isinstance(error, kind))
    return {"type": "Ready", "status": "False", "reason": reason}

def ask(self):
    try:
        raise Refused("RequestDenied", "the hub said no")
    except Refused as refusal:
        self.events.warning({}, refusal.reason, str(refusal))
    self.events.normal({}, "Asked", "the hub was asked")
"""


def test_reasons_are_followed_through_constants_tables_functions_and_values(read: Callable[[str], Sources]) -> None:
    sources = read(EXAMPLE)

    said = {(each.subject, each.reason, each.tone, each.message) for each in sources.conditions()}
    assert said == {
        ("ManagedClusterJoined", "AllThere", "True", "everything is there"),
        ("ManagedClusterJoined", "Missing", "False", "waiting for …"),
        ("ManagedClusterJoined", "Absent", "False", "nothing"),
        ("ManagedClusterJoined", "Early", "Unknown", ""),
        ("ManagedClusterJoined", "Late", "Unknown", ""),
        ("Ready", "NoKey", "False", ""),
        ("Ready", "NoFile", "False", ""),
        ("", "RequestDenied", "", "the hub said no"),
    }
    assert [(each.reason, each.tone) for each in sources.events()] == [("Asked", "Normal")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        pytest.param("Condition.false('Ready', f'No{thing}')", "cannot read", id="made at run time"),
        pytest.param("Condition.false('Ready', thing.reason)", "cannot read", id="field of an unknown class"),
        pytest.param("Condition.false('Ready', *thing)", "cannot read", id="starred arguments"),
        pytest.param("Condition('Ready', 'False', 'Missing')", "use Condition.true", id="bare condition"),
        pytest.param("(Condition.true if thing else Condition.false)('Ready', 'On')", "cannot read", id="chosen"),
        pytest.param("{'type': 'Ready', 'status': 'True', 'reason': str(thing)}", "cannot read", id="row"),
        pytest.param("thing.recorder.warning({}, str(thing), 'note')", "cannot read", id="event"),
        pytest.param("Condition.false('Ready', 'too many frames')", "not a reason", id="sentence"),
        pytest.param("partial(say, 'Ready')", "cannot read", id="function that is not called"),
        pytest.param("say('Ready', **thing)", "cannot read", id="arguments by a mapping"),
        pytest.param("replace(thing, reason='Missing')", "cannot read", id="changed condition"),
    ],
)
def test_reason_that_cannot_be_read_fails_with_file_and_line(
    line: str, problem: str, read: Callable[[str], Sources]
) -> None:
    source = f"\ndef say(type_, reason):\n    Condition.true(type_, reason)\n\ndef judge(thing):\n    {line}\n"

    with pytest.raises(UnreadableReasonError, match=rf"promise.py:{(HEAD + source).count(chr(10))}: .*{problem}"):
        read(source)


def test_every_constructed_reason_is_in_the_reference(pages: dict[str, str]) -> None:
    """Compares with all literals beside a condition, found by another way than the reference is."""
    listed = set(re.findall(r"`(\w+)`", pages["docs/reference/conditions.md"]))
    text = "".join(
        path.read_text() for path in (ROOT / "src" / "watchword").rglob("*.py") if "apiserver" not in path.parts
    )
    made = r"(?:Condition\.(?:true|false|unknown)|events\.(?:normal|warning|refusal))\(\s*[^,()]+,\s*\"(\w+)\""

    found = set(re.findall(made, text))

    assert len(found) > 100
    assert found - listed == set()


def test_every_reason_that_troubleshooting_names_is_one_that_the_code_gives(pages: dict[str, str]) -> None:
    given = set(re.findall(r"`([A-Z][A-Za-z]+)`", pages["docs/reference/conditions.md"]))
    page = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| (`[A-Z][A-Za-z]+`[^|]*) \|", page, re.MULTILINE)

    named = {reason for row in rows for reason in re.findall(r"`([A-Z][A-Za-z]+)`", row)}

    assert named
    assert named - given == set()


def test_every_failure_about_clusters_is_in_troubleshooting() -> None:
    pages = "".join((ROOT / "docs" / name).read_text() for name in ("troubleshooting.md", "troubleshooting-addons.md"))
    said = read_sources(ROOT / "src" / "watchword").conditions()
    bad = {each.reason for each in said if each.tone == "False" and each.subject in ABOUT_CLUSTERS}

    assert {reason for reason in bad if f"`{reason}`" not in pages} == set()
