"""Image pull secrets as rows of the inventory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from watchword.admin.inventory_rows import CredentialRow
from watchword.admin.pull_secret_rows import HEALTH, PULL_SECRET
from watchword.api.credential_validity import CredentialValidity
from watchword.api.meta import Object
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, pull_secret_row
from watchword.pullsecrets.pull_secret import PullSecret

CONSEQUENCE = "pods of {account} cannot pull images from the registry"
NOTES = {
    PullSecretHealth.EXPIRED: "expired: is `watchword pull-secrets` running?",
    PullSecretHealth.CORRUPT: "its content cannot be read",
    PullSecretHealth.EMPTY: "no token was issued: events on it say why",
    PullSecretHealth.OVERDUE: "should have been renewed: is `watchword pull-secrets` running?",
    PullSecretHealth.NEW: "waits for its first token",
    PullSecretHealth.LEGACY: "made from a long-lived token",
    PullSecretHealth.HEALTHY: "",
}


def decide_pull_secret_rows(secrets: Sequence[Object], *, now: datetime) -> Iterable[CredentialRow]:
    """Return a row for each pull secret; the objects are those of the cache, without tokens."""
    read = [PullSecret.read(secret) for secret in secrets]
    return (_row(pull_secret_row(secret, now=now)) for secret in read if secret is not None)


def _row(row: PullSecretRow) -> CredentialRow:
    account = f"{row.key.namespace}/{row.account}"
    return CredentialRow(
        PULL_SECRET,
        "",
        f"account {account}",
        row.key.name,
        CredentialValidity(row.issued_at, row.expires_at, row.renews_at),
        HEALTH[row.health],
        NOTES[row.health],
        CONSEQUENCE.format(account=account),
        renewed=row.renews_at is not None,
    )
