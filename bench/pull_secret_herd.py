"""How evenly many pull secrets are refreshed: an ordinary day, and a change of the signing key.

Run with `python -m bench.pull_secret_herd`. It uses the decisions of the controllers and no server, so the figures are
the same on every machine.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from watchword.pullsecrets.dockercfg import TokenFacts
from watchword.pullsecrets.refresh import choose_refresh_time
from watchword.pullsecrets.signing_keys import SignerTiming, SigningKeys

START = datetime(2026, 1, 1, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
TOKEN = TokenFacts("old", "subject", "account", "secret", (), START, START + HOUR)


def refreshes_of_a_day(secrets: int, lifetime: timedelta) -> list[int]:
    """Return the refreshes in each minute of a day; all secrets got their first token within its first minute."""
    minutes: Counter[int] = Counter()
    for number in range(secrets):
        issued = START + MINUTE * (number / secrets)
        while issued < START + DAY:
            token = replace(TOKEN, issued_at=issued, expires_at=issued + lifetime)
            issued = choose_refresh_time(token, seed=f"secret-{number}")
            minutes[int((issued - START) / MINUTE)] += 1
    return [minutes[minute] for minute in range(24 * 60)]


def refreshes_of_a_rotation(secrets: int, timing: SignerTiming) -> list[int]:
    """Return the refreshes in each second after the earlier key has signed its last token."""
    keys = SigningKeys(timing, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=START)
    changed = START + timing.settle
    keys.observe_token("new", now=changed)
    times = (keys.replacement_time("old", seed=f"secret-{number}", now=changed) for number in range(secrets))
    seconds = Counter(int((at - changed).total_seconds()) for at in times if at is not None)
    return [seconds[second] for second in range(int(timing.spread.total_seconds()))]


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secrets", type=int, default=10_000)
    secrets = parser.parse_args().secrets
    print("| token lifetime | refreshes in a day | mean per minute | busiest minute | busiest / mean |")
    print("|---|---|---|---|---|")
    for hours in (1, 4, 12):
        day = refreshes_of_a_day(secrets, hours * HOUR)
        mean = sum(day) / len(day)
        print(f"| {hours:g} h | {sum(day)} | {mean:.0f} | {max(day)} | {max(day) / mean:.2f} |")
    print("\n| signer spread | refreshed | mean per second | busiest second |")
    print("|---|---|---|---|")
    for minutes in (1, 5, 15):
        rotation = refreshes_of_a_rotation(secrets, SignerTiming(spread=minutes * MINUTE))
        mean = sum(rotation) / len(rotation)
        print(f"| {minutes} min | {sum(rotation)} | {mean:.0f} | {max(rotation)} |")


if __name__ == "__main__":
    main()
