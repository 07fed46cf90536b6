"""Renders the reference of conditions and events from the sources."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from pathlib import Path

from tools.reasons import Said, read_sources
from watchword.discovery.errors import DiscoveryReason

HEAD = """# Conditions and events

Rendered from the code by `make docs`. A reason is one word for programs and stays the same across releases; a message
is a sentence for people, ends with what to do next where a person must act, and never holds a secret. `…` stands for
what depends on the case. What to do about each is in [troubleshooting](../troubleshooting.md).
"""
EXPLAINED = """From where they arise to the condition that is made of them: of a credential (`AddonTokenRefreshed`,
`ClusterCertificateRotated`), or of a spec that cannot be carried out (`Applied`)."""
DISCOVERY = "watchword.discovery."


def render_conditions(sources: Path) -> str:
    """Return the page: conditions by type, then reasons that several conditions hand on, then events."""
    read = read_sources(sources)
    said = [each for each in read.conditions() if not each.module.startswith(DISCOVERY)]
    named = [each for each in said if each.subject]
    dependent = [each for each in said if not each.subject and each.tone]
    handed_on = [each for each in said if not each.subject and not each.tone]
    lines = [HEAD, "## Conditions", ""]
    for subject, rows in groupby(named, key=lambda each: each.subject):
        lines += [f"### {subject}", "", *_table(rows, _with_tone), ""]
    lines += ["### Types that the object names", "", *_table(dependent, _with_tone), ""]
    lines += ["## Reasons handed on", "", EXPLAINED, "", *_table(handed_on, _plain), ""]
    lines += ["## Events", "", *_table(read.events(), _with_tone), ""]
    lines += ["## Why discovery stops", "", "Errors of `join` and `discover` carry one of these.", ""]
    lines += [", ".join(f"`{reason}`" for reason in DiscoveryReason) + ".", ""]
    return "\n".join(lines)


def _table(rows: Iterable[Said], line: Callable[[Said], str]) -> Iterable[str]:
    return dict.fromkeys(map(line, rows))  # several modules may say the same


def _with_tone(said: Said) -> str:
    return f"- `{said.reason}` ({said.tone}): {_cell(said.message)}"


def _plain(said: Said) -> str:
    return f"- `{said.reason}`: {_cell(said.message)}"


def _cell(message: str) -> str:
    return message.replace("<", "\\<") or "…"
