"""Which subjects can run a workload on this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.report.rows import Skipped
from bench.rig.subject import Subject, read_subject


@dataclass(frozen=True)
class SubjectFile:
    """A subject and the file that describes it."""

    path: Path
    subject: Subject


def read_subject_files(folder: Path) -> list[SubjectFile]:
    """Return every subject of a folder, ours last, so that a peer never measures on a machine that we warmed up."""
    found = [SubjectFile(path, read_subject(path)) for path in sorted(folder.glob("*.toml"))]
    return sorted(found, key=lambda one: one.subject.name == "watchword")


def choose_subjects(
    files: Iterable[SubjectFile], workload: str, places: Mapping[str, str]
) -> tuple[list[SubjectFile], list[Skipped]]:
    """Return the subjects whose programs are at hand, and those that have programs which are not."""
    chosen, skipped = [], []
    for one in files:
        if workload not in one.subject.workloads:
            continue
        missing = [name for name in _programs(one.subject, workload, places) if shutil.which(name) is None]
        if missing:
            reason = f"{missing[0]} is missing: put it into the folder that PEERS_BIN names"
            skipped.append(Skipped(workload, one.subject.name, reason))
        else:
            chosen.append(one)
    return chosen, skipped


def _programs(subject: Subject, workload: str, places: Mapping[str, str]) -> list[str]:
    names = []
    for program in subject.workloads[workload]:
        name = program.argv[0]
        for place, path in places.items():
            name = name.replace(f"{{{place}}}", path)
        names.append(name)
    return names
