"""Edits the list of roles in `aws-auth`, one YAML text that others edit too: their bytes stay as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import yaml as pyyaml

from watchword.api import yaml
from watchword.registration.aws_irsa.errors import AwsAuthUnreadable

ROLE = "rolearn"
Entry = Mapping[str, Any]


def read_entries(text: str) -> list[Entry]:
    """Return the entries; `AwsAuthUnreadable` when the text is no list of mappings."""
    try:
        found = yaml.load(text)
    except yaml.YamlError as error:
        raise AwsAuthUnreadable(_advice(str(error))) from error
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise AwsAuthUnreadable(_advice("it is not a list of entries"))
    return found


def with_entry(text: str, entry: Entry) -> str:
    """Return the text with exactly this entry for its role; the same text when it has it already."""
    entries = read_entries(text)
    of_role = [each for each in entries if each.get(ROLE) == entry[ROLE]]
    if of_role == [dict(entry)]:
        return text
    kept = without_role(text, entry[ROLE])
    wanted = [*read_entries(kept), dict(entry)]
    return _first_that_reads_as(wanted, _appended(kept, entry))


def without_role(text: str, role_arn: str) -> str:
    """Return the text without the entries of a role; the same text when there is none."""
    entries = read_entries(text)
    kept = [entry for entry in entries if entry.get(ROLE) != role_arn]
    if len(kept) == len(entries):
        return text
    return _first_that_reads_as(kept, _cut(text, [entry.get(ROLE) == role_arn for entry in entries]))


def _first_that_reads_as(wanted: Sequence[Entry], edited: str) -> str:
    """Return the edited text when it means what is wanted, else the whole list written anew."""
    try:
        if read_entries(edited) == list(wanted):
            return edited
    except AwsAuthUnreadable:
        pass
    return yaml.dump(list(wanted)) if wanted else ""


def _appended(text: str, entry: Entry) -> str:
    column = _column(text)
    lines = yaml.dump([dict(entry)]).splitlines(keepends=True)
    newline = "" if not text or text.endswith("\n") else "\n"
    return text + newline + "".join(" " * column + line for line in lines)


def _cut(text: str, dropped: Sequence[bool]) -> str:
    """Return the text without the lines of some entries; comments before the next entry stay."""
    lines, starts = text.splitlines(keepends=True), _first_lines(text)
    if len(starts) != len(dropped):
        return text
    ends = [*starts[1:], len(lines)]
    gone: set[int] = set()
    for start, end, drop in zip(starts, ends, dropped, strict=True):
        last = end
        while last > start + 1 and lines[last - 1].strip()[:1] in ("", "#"):
            last -= 1
        gone |= set(range(start, last)) if drop else set()
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _column(text: str) -> int:
    node = _sequence(text)
    return node.start_mark.column if node is not None and node.value else 0


def _first_lines(text: str) -> list[int]:
    """Return the line of the dash of each entry; fewer than entries where they are not written one below another."""
    node, lines = _sequence(text), text.splitlines()
    if node is None:
        return []
    found: list[int] = []
    for item in node.value:
        line = item.start_mark.line
        while line > (found[-1] if found else -1) and not lines[line][node.start_mark.column :].startswith("-"):
            line -= 1
        found += [line] if not found or line > found[-1] else []
    return found


def _sequence(text: str) -> pyyaml.SequenceNode | None:
    """Return the list with the places of its entries; None when it is written in brackets, is empty, or is unclear."""
    try:
        node = pyyaml.compose(text, Loader=pyyaml.SafeLoader)
    except pyyaml.YAMLError:  # libyaml, which has read the text before, accepts more than this parser
        return None
    is_block = isinstance(node, pyyaml.SequenceNode) and not node.flow_style
    return node if is_block else None


def _advice(trouble: str) -> str:
    return (
        f"mapRoles in ConfigMap kube-system/aws-auth cannot be read: {trouble}; correct it with "
        "`kubectl -n kube-system edit configmap aws-auth`; it is left as it is"
    )
