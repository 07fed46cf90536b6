"""The token that `init` hands out: made once, found again by the next run."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP
from watchword.discovery.token_secret import BOTH_USAGES, TokenRecord
from watchword.discovery.token_store import TokenStore
from watchword.discovery.tokens import BootstrapToken

DESCRIPTION = "made by watchword init"


class TokenSpec(Struct, frozen=True):
    """Which token is wanted; `token` is None when any will do."""

    ttl: timedelta = timedelta(hours=24)  # zero: for ever
    token: BootstrapToken | None = None
    groups: tuple[str, ...] = (MANAGED_CLUSTER_GROUP,)

    def record(self, now: datetime) -> TokenRecord:
        """Return the token as it would be made now."""
        return TokenRecord(
            self.token or BootstrapToken.generate(),
            expires=now + self.ttl if self.ttl else None,
            description=DESCRIPTION,
            groups=self.groups,
        )


async def ensure_token(store: TokenStore, spec: TokenSpec, *, now: datetime, dry_run: bool = False) -> TokenRecord:
    """Return a token as wished, an earlier one when it still serves; `TokenRefused` when its id is another's."""
    records, _ = await store.list()
    present = choose_reusable_token(records, spec, now=now)
    if present is not None:
        return present
    record = spec.record(now)
    await store.create(record, dry_run=dry_run)
    return record


def choose_reusable_token(records: Iterable[TokenRecord], spec: TokenSpec, *, now: datetime) -> TokenRecord | None:
    """Return an existing token to use: the given one, or one of an earlier run with half its lifetime left."""
    for record in records:
        if record.usages != BOTH_USAGES or record.groups != spec.groups or record.is_expired(now):
            continue
        if spec.token is not None:
            if record.token.id == spec.token.id and hmac.compare_digest(record.token.reveal(), spec.token.reveal()):
                return record
        elif record.description == DESCRIPTION and _has_enough_time_left(record, spec, now):
            return record
    return None


def _has_enough_time_left(record: TokenRecord, spec: TokenSpec, now: datetime) -> bool:
    if record.expires is None or not spec.ttl:
        return record.expires is None and not spec.ttl
    return spec.ttl / 2 <= record.expires - now <= spec.ttl
