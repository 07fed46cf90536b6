"""How evenly many credentials are renewed: an ordinary day of each kind, and a change of the signing key.

It uses the decisions of the controllers and no server, so the figures are the same on every machine.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import count

from msgspec.structs import replace

from bench.reliability.credentials import CredentialKind
from bench.reliability.figure import Figure, markdown_table
from watchword.credentials.evidence import SignerTiming, SigningKeys
from watchword.credentials.lifecycle import BoundToken, choose_renewal_time
from watchword.pki.authority import BACKDATE
from watchword.pullsecrets.refresh import choose_refresh_time

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TOKEN = BoundToken("subject", "account", START, START + HOUR, key_id="old", secret_uid="secret")
LIFETIMES = (HOUR, 4 * HOUR, 12 * HOUR)
MOST = 3.0  # times the mean, in any minute

Renewal = Callable[[datetime, timedelta, str, int], datetime]
"""Chooses when a credential is renewed: when it was issued, its lifetime, its holder, which one of its holder."""


def _renew_certificate(issued: datetime, lifetime: timedelta, holder: str, number: int) -> datetime:
    return choose_renewal_time(issued - BACKDATE, issued + lifetime, seed=f"key {number} of {holder}")


def _renew_token(issued: datetime, lifetime: timedelta, holder: str, _: int) -> datetime:
    return choose_renewal_time(issued, issued + lifetime, seed=holder)


def _renew_pull_secret(issued: datetime, lifetime: timedelta, holder: str, _: int) -> datetime:
    return choose_refresh_time(replace(TOKEN, issued_at=issued, expires_at=issued + lifetime), seed=holder)


RENEWALS: Mapping[CredentialKind, Renewal] = {
    CredentialKind.CLUSTER: _renew_certificate,
    CredentialKind.ADDON_CERTIFICATE: _renew_certificate,
    CredentialKind.ADDON_TOKEN: _renew_token,
    CredentialKind.ACCOUNT: _renew_token,
    CredentialKind.PULL_SECRET: _renew_pull_secret,
}


def renewals_of_a_day(kind: CredentialKind, credentials: int, lifetime: timedelta) -> list[int]:
    """Return the renewals in each minute of a day; every credential was issued within its first minute."""
    minutes: Counter[int] = Counter()
    for number in range(credentials):
        minutes.update(_minutes(RENEWALS[kind], START + MINUTE * (number / credentials), lifetime, f"{kind} {number}"))
    return [minutes[minute] for minute in range(24 * 60)]


def _minutes(renew: Renewal, issued: datetime, lifetime: timedelta, holder: str) -> Iterable[int]:
    for number in count():
        issued = renew(issued, lifetime, holder, number)
        if issued >= START + DAY:
            return
        yield int((issued - START) / MINUTE)


def refreshes_of_a_rotation(secrets: int, timing: SignerTiming) -> list[int]:
    """Return the refreshes of pull secrets in each second after the earlier key has signed its last token."""
    keys = SigningKeys(timing, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=START)
    keys.update_signing(now=START)
    changed = START + timing.settle
    keys.observe_token("new", now=changed)
    keys.update_signing(now=changed)
    times = (keys.replacement_time(TOKEN, seed=f"secret-{number}") for number in range(secrets))
    seconds = Counter(int((at - changed).total_seconds()) for at in times if at is not None)
    return [seconds[second] for second in range(int(timing.spread.total_seconds()))]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--credentials", type=int, default=10_000, help="of each kind (default: %(default)s)")


def measure(options: argparse.Namespace) -> Figure:
    """Return the busiest minute of every kind and lifetime, as a multiple of the mean."""
    head = ("credential", "lifetime", "renewals in a day", "mean per minute", "busiest minute", "busiest / mean")
    rows, worst = [], 0.0
    for kind in CredentialKind:
        for lifetime in LIFETIMES:
            day = renewals_of_a_day(kind, options.credentials, lifetime)
            mean = sum(day) / len(day)
            worst = max(worst, max(day) / mean)
            rows.append((kind, f"{lifetime / HOUR:g} h", sum(day), f"{mean:.0f}", max(day), f"{max(day) / mean:.2f}"))
    tables = f"{markdown_table(head, rows)}\n\n{_rotation_table(options.credentials)}\n"
    line = f"the busiest minute of {options.credentials} credentials had {worst:.2f} times the mean (bar: {MOST:g})"
    return Figure(line, worst <= MOST, tables)


def _rotation_table(secrets: int) -> str:
    rows = []
    for minutes in (1, 5, 15):
        rotation = refreshes_of_a_rotation(secrets, SignerTiming(spread=minutes * MINUTE))
        rows.append((f"{minutes} min", sum(rotation), f"{sum(rotation) / len(rotation):.0f}", max(rotation)))
    return markdown_table(("signer spread", "refreshed", "mean per second", "busiest second"), rows)
