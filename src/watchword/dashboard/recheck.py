"""When the rows of an object have to be decided anew though the object did not change."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from watchword.admin.health import AUTHORITY_WARNING_PERIOD, TOLERANCE
from watchword.admin.inventory_rows import CredentialRow
from watchword.admin.renewal_proof import TAKE_UP_WITHIN
from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.pullsecrets.inventory import FIRST_TOKEN_WITHIN
from watchword.pullsecrets.refresh import LATEST

AFTERWARDS = timedelta(milliseconds=1)
"""Some decisions change at an instant and others just after it: after this time, all of them have."""


def choose_recheck(
    credentials: Iterable[CredentialRow], pull_secrets: Sequence[Object], *, within: timedelta, now: datetime
) -> datetime | None:
    """Return the next instant at which the time alone may change a row, None when there is none."""
    instants = (each for row in credentials for each in _instants(row, within))
    later = (each + AFTERWARDS for each in (*instants, *_first_tokens(pull_secrets)))
    return min((each for each in later if each > now), default=None)


def _instants(row: CredentialRow, within: timedelta) -> Iterator[datetime]:
    """Yield every instant on which the health, the note or the forecast of a credential depends."""
    issued, expires, renewal = row.validity.issued, row.validity.expires, row.validity.latest_renewal
    if issued is not None:
        yield issued + TAKE_UP_WITHIN
    if expires is not None:
        yield from (expires - period for period in (timedelta(0), within, AUTHORITY_WARNING_PERIOD, LATEST))
    if renewal is not None:
        yield renewal
        if expires is not None:
            yield renewal + (expires - (issued or renewal)) * TOLERANCE


def _first_tokens(pull_secrets: Sequence[Object]) -> Iterator[datetime]:
    for secret in pull_secrets:
        created = parse_rfc3339(str(secret["metadata"].get("creationTimestamp") or ""))
        if created is not None:
            yield created + FIRST_TOKEN_WITHIN
