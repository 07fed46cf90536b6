"""Renders the reference of conditions and events from the sources."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from tools.reasons import Said, read_sources
from watchword.discovery.errors import DiscoveryReason

HEAD = """# Conditions and events

Rendered from the code by `make docs`. A reason is one word for programs and stays the same across releases; a message
is a sentence for people, ends with what to do next where a person must act, and never holds a secret. `…` stands for
what depends on the case; a reason without a message has a different one in each case. Messages of Normal Events are
left out, and those of healthy conditions. What to do about each is in [troubleshooting](../troubleshooting.md).
"""
EXPLAINED = """From where they arise to the condition of a credential (`AddonTokenRefreshed`,
`ClusterCertificateRotated`), and to a Warning Event about an add-on's Secret."""
TROUBLES = ("", "CleanupScheduled", "Deleting", "Denied", "HubConnectionDegraded", "RevocationPending", "Superseded")


def render_conditions(sources: Path) -> str:
    """Return the page: conditions by type, then reasons that several conditions hand on, then events."""
    read = read_sources(sources)
    said = read.conditions()
    named = [each for each in said if each.subject]
    dependent = [each for each in said if not each.subject and each.tone]
    handed_on = [each for each in said if not each.subject and not each.tone]
    lines = [HEAD, "## Conditions", ""]
    for subject, rows in groupby(named, key=lambda each: each.subject):
        lines += [f"### {subject}", "", *_table(rows), ""]
    lines += ["### Types that the object names", "", *_table(dependent), ""]
    lines += ["## Reasons handed on", "", EXPLAINED, "", *_table(handed_on), ""]
    lines += ["## Events", "", *_table(read.events()), ""]
    lines += ["## Why discovery stops", "", "Errors of `join` and `discover` carry one of these.", ""]
    lines += [", ".join(f"`{reason}`" for reason in DiscoveryReason) + ".", ""]
    return "\n".join(lines)


def _is_well(said: Said) -> bool:
    """Whether nothing needs a person: a Normal Event, or a condition that is True and not one of a trouble."""
    return said.tone == "Normal" or (said.tone == "True" and said.subject not in TROUBLES)


def _table(rows: Iterable[Said]) -> Iterator[str]:
    """Yield a line for each message, and one with the reasons whose messages depend on the case alone."""
    lines: dict[str, None] = {}
    others: dict[str, None] = {}
    for said in rows:
        reason = f"`{said.reason}`" + (f" ({said.tone})" if said.tone else "")
        if re.search(r"\w", said.message) and not _is_well(said):
            message = said.message.replace("<", "\\<")
            lines[f"- {reason}: {message}"] = None
        else:
            others[reason] = None
    yield from lines
    if others:
        yield f"- {', '.join(others)}"
