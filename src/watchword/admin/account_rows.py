"""Tokens of managed service accounts as rows of the inventory."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from watchword.admin.health import decide_expiring_health, decide_renewed_health
from watchword.admin.inventory_rows import CredentialRow
from watchword.api.accounts import read_token_validity
from watchword.api.conditions import find_condition
from watchword.api.meta import Object
from watchword.api.names import ConditionType

ACCOUNT_TOKEN = "account token"  # noqa: S105 - a kind of credential
CONSEQUENCE = "programs that use it are refused by the cluster"


def decide_account_rows(obj: Object, *, now: datetime) -> Iterable[CredentialRow]:
    """Say until when the token of a managed service account lives; nothing before there is one."""
    validity = read_token_validity(obj)
    if validity is None:
        return
    scheduled = find_condition(obj, ConditionType.ROTATION_SCHEDULED)
    renewed = scheduled is None or scheduled.status != "False"
    decide = decide_renewed_health if renewed else decide_expiring_health
    metadata = obj["metadata"]
    yield CredentialRow(
        ACCOUNT_TOKEN,
        metadata["namespace"],
        f"account {metadata['name']}",
        metadata["name"],
        validity,
        decide(validity, now=now),
        note="" if renewed else "rotation is off",
        consequence=CONSEQUENCE,
        renewed=renewed,
    )
