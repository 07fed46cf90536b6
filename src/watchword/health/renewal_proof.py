"""Decides from what was reported and logged whether the holder of a credential uses the one last issued."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.addon import Addon
from watchword.api.conditions import Condition, find_condition
from watchword.api.credential_report import CredentialUse, certificate_id, decide_use, parse_issued, parse_used
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.health.audit_log import CredentialUsage
from watchword.health.facts import HubFacts
from watchword.health.inventory_rows import CredentialRow, decide_account_row
from watchword.health.states import InventoryHealth
from watchword.pki.certificates import Certificate

STILL_OLD = "renewed, still using the old one"
TAKE_UP_WITHIN = timedelta(minutes=15)
"""How long a holder may take to read a new credential before that needs attention."""

BACKDATING = timedelta(minutes=5)
"""By how much signers let a certificate begin before it was issued."""


class UseEvidence(Struct, frozen=True):
    """What holders report: the credentials last issued, and the one in use; empty where nothing is reported."""

    issued: frozenset[str] = frozenset()
    used: str = ""


def cluster_evidence(said: Condition | None, certificates: Sequence[Certificate]) -> UseEvidence:
    """Return what an agent reports of its own connection; agents that report no id are known by their requests."""
    message = said.message if said is not None else ""
    issued = parse_issued(message) or frozenset(certificate_id(each.der) for each in certificates[-1:])
    return UseEvidence(issued, parse_used(message))


def addon_evidence(addon: Addon, said: Condition | None) -> UseEvidence:
    available = find_condition(addon.object, ConditionType.ADDON_AVAILABLE)
    issued = parse_issued(said.message) if said is not None else frozenset()
    return UseEvidence(issued, parse_used(available.message) if available is not None else "")


def decide_row_use(
    row: CredentialRow, evidence: UseEvidence, usage: CredentialUsage | None, *, now: datetime
) -> CredentialRow:
    """Return the row with the use of its credential; one that is not taken up in time needs attention."""
    use = _decide_use(row, evidence, usage)
    if use is not CredentialUse.PREVIOUS or row.health is not InventoryHealth.GOOD:
        return replace(row, use=use)
    late = row.validity.issued is None or now - row.validity.issued >= TAKE_UP_WITHIN
    return replace(row, use=use, health=InventoryHealth.PENDING if late else InventoryHealth.DUE, note=STILL_OLD)


def _decide_use(row: CredentialRow, evidence: UseEvidence, usage: CredentialUsage | None) -> CredentialUse:
    """Prefer the server's log to the holder's report; requests before the renewal are no evidence."""
    seen = usage.last_of(row.subject) if usage is not None and evidence.issued else None
    if seen is not None:
        used, at = seen
        if used in evidence.issued:
            return CredentialUse.CURRENT
        if row.validity.issued is not None and at > row.validity.issued + BACKDATING:
            return CredentialUse.PREVIOUS
    return decide_use(evidence.issued, evidence.used)


def decide_account_use(facts: HubFacts, obj: Object, *, now: datetime) -> CredentialRow | None:
    """Return the token of a managed service account; its use is known where audit logs and Secrets were read."""
    token, row = facts.account_tokens.get(ObjectKey.of(obj)), decide_account_row(obj, now=now)
    if token is None or row is None:
        return row
    evidence = UseEvidence(frozenset({token.credential_id}))
    return decide_row_use(replace(row, subject=token.user), evidence, facts.usage, now=now)
