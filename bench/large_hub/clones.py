"""Multiplies a fleet in etcd: copies of clusters that have joined, where so many joins would take hours."""

from __future__ import annotations

import base64
import re
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, TypeAlias

import orjson

PREFIX, END = b"/registry/", b"/registry0"
LEFT_OUT = (b"/registry/events/", b"/registry/masterleases/")
NAME = re.compile(rb"\bc\d{5}\b")
UID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
PUTS_AT_ONCE = 100
PATIENCE = 60.0

Entries: TypeAlias = Mapping[bytes, bytes]
"""Keys and values as etcd has them: JSON for custom resources, protobuf for built-in kinds."""


def cluster_name(number: int) -> str:
    """Return the name of a cluster; all are of one length, so that a copy of a protobuf message stays valid."""
    return f"c{number:05d}"


def group_by_cluster(entries: Entries) -> dict[bytes, dict[bytes, bytes]]:
    """Return the entries whose key names a cluster, by cluster."""
    groups: dict[bytes, dict[bytes, bytes]] = defaultdict(dict)
    for key, value in entries.items():
        found = NAME.search(key)
        if found is not None and not key.startswith(LEFT_OUT):
            groups[found[0]][key] = value
    return dict(groups)


def shared_uids(groups: Mapping[bytes, Entries]) -> frozenset[bytes]:
    """Return the UIDs that several clusters name: those of objects that belong to none of them."""
    seen = Counter(
        uid for group in groups.values() for uid in {u for value in group.values() for u in UID.findall(value)}
    )
    return frozenset(uid for uid, count in seen.items() if count > 1)


def copy_cluster(group: Entries, name: bytes, copy: bytes, shared: frozenset[bytes]) -> dict[bytes, bytes]:
    """Return the entries of one cluster under another name, with UIDs of their own."""

    def own(found: re.Match[bytes]) -> bytes:
        if found[0] in shared:
            return found[0]
        digest = sha256(copy + found[0]).hexdigest()
        return "-".join((digest[:8], digest[8:12], digest[12:16], digest[16:20], digest[20:32])).encode()

    return {key.replace(name, copy): UID.sub(own, value.replace(name, copy)) for key, value in group.items()}


def multiply(endpoint: str, clusters: int) -> None:
    """Copy the clusters of an etcd in turn until there are so many."""
    groups = group_by_cluster(read_all(endpoint))
    shared, names = shared_uids(groups), sorted(groups)
    for number in range(len(names), clusters):
        name = names[number % len(names)]
        write(endpoint, copy_cluster(groups[name], name, cluster_name(number).encode(), shared))


def read_all(endpoint: str) -> dict[bytes, bytes]:
    """Return everything that an API server has stored."""
    rows = _ask(endpoint, "range", {"key": _encoded(PREFIX), "range_end": _encoded(END)}).get("kvs", [])
    return {base64.b64decode(row["key"]): base64.b64decode(row["value"]) for row in rows}


def write(endpoint: str, entries: Entries) -> None:
    """Write entries, many in one request."""
    for part in _parts(list(entries.items())):
        puts = [{"requestPut": {"key": _encoded(key), "value": _encoded(value)}} for key, value in part]
        _ask(endpoint, "txn", {"success": puts})


def _parts(rows: list[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
    for start in range(0, len(rows), PUTS_AT_ONCE):
        yield rows[start : start + PUTS_AT_ONCE]


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _ask(endpoint: str, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(f"{endpoint}/v3/kv/{verb}", data=orjson.dumps(body))
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        document: dict[str, Any] = orjson.loads(answer.read())
    return document
