"""Image pull secrets as rows of the inventory: one row for each state, because a cluster has thousands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from watchword.admin.health import InventoryHealth
from watchword.admin.inventory_rows import CredentialRow
from watchword.api.credential_validity import CredentialValidity
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret

PULL_SECRET = "pull secret"  # noqa: S105 - a kind of credential
CONSEQUENCE = "pods of the account can no longer pull from the registry"
LIST = "watchword pull-secrets list"
HEALTH = {
    PullSecretHealth.EXPIRED: InventoryHealth.EXPIRED,
    PullSecretHealth.CORRUPT: InventoryHealth.FAILING,
    PullSecretHealth.EMPTY: InventoryHealth.FAILING,
    PullSecretHealth.OVERDUE: InventoryHealth.OVERDUE,
    PullSecretHealth.NEW: InventoryHealth.GOOD,
    PullSecretHealth.LEGACY: InventoryHealth.GOOD,
    PullSecretHealth.HEALTHY: InventoryHealth.GOOD,
}


def decide_pull_secret_rows(secrets: Sequence[PullSecret], *, now: datetime) -> Iterable[CredentialRow]:
    """Return a row for each state in which there are pull secrets, with the validity of the first one to expire."""
    rows = [pull_secret_row(secret, now=now) for secret in secrets]
    for health in PullSecretHealth:
        alike = [row for row in rows if row.health is health]
        if alike:
            yield _row_of(alike, now)


def _row_of(alike: Sequence[PullSecretRow], now: datetime) -> CredentialRow:
    first = min(alike, key=lambda row: (row.expires_at or now, row.key))
    health = HEALTH[first.health]
    if health is InventoryHealth.GOOD and first.renews_at is not None and first.renews_at <= now:
        health = InventoryHealth.DUE
    legacy, many = first.health is PullSecretHealth.LEGACY, len(alike) > 1
    return CredentialRow(
        PULL_SECRET,
        "",
        f"{len(alike)} service accounts" if many else f"service account {first.key.namespace}/{first.account}",
        "system:serviceaccounts" if many else f"system:serviceaccount:{first.key.namespace}:{first.account}",
        CredentialValidity(first.issued_at, first.expires_at, first.renews_at),
        health,
        _note(first, len(alike)),
        CONSEQUENCE,
        renewed=not legacy,
        count=len(alike),
    )


def _note(first: PullSecretRow, count: int) -> str:
    if first.health is PullSecretHealth.LEGACY:
        return "made from long-lived tokens: kubectl get secrets -A -l openshift.io/legacy-token"
    if first.health is PullSecretHealth.NEW:
        return "waits for its first token"
    if first.health is PullSecretHealth.HEALTHY:
        return f"the first to expire is {first.key}" if count > 1 else ""
    which = f"{first.key} and {count - 1} more" if count > 1 else str(first.key)
    state = f"{first.health.value}: " if HEALTH[first.health] is InventoryHealth.FAILING else ""
    return f"{state}{which}; see {LIST} --unhealthy"
