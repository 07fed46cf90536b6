"""Reads from audit logs which credentials were used: the proof that a holder has taken up a new one."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import orjson
from msgspec import Struct, field

from watchword.api.credential_report import CREDENTIAL_ID, is_credential_id
from watchword.api.time import parse_rfc3339
from watchword.health.errors import AuditLogUnreadable

REFUSED = (401,)  # a request with this answer proves no use


class CredentialUsage(Struct):
    """The last use of each credential by each user, from any number of audit logs."""

    uses: dict[str, dict[str, datetime]] = field(default_factory=dict)  # user → credential id → when

    def observe(self, user: str, credential_id: str, at: datetime) -> None:
        known = self.uses.setdefault(user, {})
        if credential_id not in known or known[credential_id] < at:
            known[credential_id] = at

    def last_of(self, user: str) -> tuple[str, datetime] | None:
        """Return which credential a user showed last, and when; None when the logs tell nothing."""
        known = self.uses.get(user)
        return max(known.items(), key=lambda row: row[1]) if known else None


def read_audit_logs(paths: Iterable[Path]) -> CredentialUsage:
    """Read audit logs of level Metadata or more; raise `AuditLogUnreadable`."""
    usage = CredentialUsage()
    for path in paths:
        try:
            with path.open("rb") as lines:
                for line in lines:
                    _observe_line(usage, line)
        except OSError as error:
            raise AuditLogUnreadable(f"the audit log {path} cannot be read: {error.strerror}") from error
    return usage


def _observe_line(usage: CredentialUsage, line: bytes) -> None:
    """Record what one event shows; a line that is cut or is no event is ignored."""
    if b"credential-id" not in line:
        return
    try:
        event = orjson.loads(line)
        user, status = event["user"], event.get("responseStatus") or {}
        ids = user["extra"][CREDENTIAL_ID]
        at = parse_rfc3339(str(event.get("requestReceivedTimestamp") or ""))
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return
    if at is not None and status.get("code") not in REFUSED:
        for each in ids:
            if isinstance(each, str) and is_credential_id(each):
                usage.observe(str(user.get("username")), each, at)
