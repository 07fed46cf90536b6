"""Prints bootstrap tokens: rows for people, documents for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from watchword.api import yaml
from watchword.api.time import rfc3339
from watchword.discovery.token_secret import TokenRecord

COLUMNS = ("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "CLUSTERS", "MAX USES")
API_VERSION = "output.kubeadm.k8s.io/v1alpha3"  # scripts that read kubeadm's tokens read ours
NONE = "<none>"
ANY = "<any>"


def token_row(record: TokenRecord, now: datetime, *, secrets: bool) -> tuple[str, ...]:
    """Return the cells of one token."""
    return (
        record.token.reveal() if secrets else str(record.token),
        "<forever>" if record.expires is None else format_duration_left(record.expires - now),
        "<never>" if record.expires is None else rfc3339(record.expires),
        ",".join(record.usages) or NONE,
        record.description or NONE,
        ",".join(record.groups) or NONE,
        ",".join(record.limits.patterns) or ANY,
        ANY if record.limits.maximum_uses is None else str(record.limits.maximum_uses),
    )


def format_tokens(records: Sequence[TokenRecord], form: str, *, secrets: bool) -> str:
    """Return one document for each token; without secrets, the token field shows only the id."""
    documents = [_document(record, secrets=secrets) for record in records]
    if form == "yaml":
        return "---\n".join(yaml.dump(document) for document in documents)
    return "".join(orjson.dumps(d, option=orjson.OPT_INDENT_2).decode() + "\n" for d in documents)


def format_duration_left(left: timedelta) -> str:
    """Return a duration in its largest sensible unit, as kubectl shows ages."""
    seconds = int(left.total_seconds())
    if seconds <= 0:
        return "<expired>"
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def _document(record: TokenRecord, *, secrets: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "BootstrapToken",
        "apiVersion": API_VERSION,
        "token": record.token.reveal() if secrets else str(record.token),
        "description": record.description,
        "expires": "" if record.expires is None else rfc3339(record.expires),
        "usages": list(record.usages),
        "groups": list(record.groups),
        "allowedClusters": list(record.limits.patterns),
        "maxUses": record.limits.maximum_uses,
    }
    return {name: value for name, value in document.items() if value not in ("", [], None)}
