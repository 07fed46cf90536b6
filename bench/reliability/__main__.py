"""Runs one reliability bar: `python -m bench.reliability BAR`; exits with 1 when it was missed."""

from __future__ import annotations

import argparse
import importlib
import sys

BARS = {
    "abuse": "how long an administrator waits while an unauthenticated client abuses HTTP/2 and slow HTTP",
    "crashes": "kill -9 after any write of any program",
    "fuzz": "damaged input for every decoder, the API and every reconcile loop",
    "heal": "states that heal once their cause is gone, and after how long",
    "herd": "how evenly many credentials are renewed",
    "live": "a sample of incidents on sockets, with the control plane in a process of its own",
    "outage": "recovery from an outage that is longer than a life of a credential",
    "revocation": "how long a revoked credential is still honoured",
    "rotations": "rotations that finish in time while requests fail and the hub restarts",
    "secrets": "secret bytes outside Secrets",
    "skew": "clocks of hub and clusters that differ",
    "soak": "memory, descriptors, timers and files under rotations without pause",
    "upgrade": "two revisions that take turns on one data directory, during rotations",
}


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Read the command line; only the chosen bar is imported."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description=__doc__)
    parser.add_argument("bar", choices=sorted(BARS), help="; ".join(f"{bar}: {what}" for bar, what in BARS.items()))
    chosen, rest = parser.parse_known_args(arguments)
    bar = importlib.import_module(f"bench.reliability.{chosen.bar}")
    options = argparse.ArgumentParser(prog=f"python -m bench.reliability {chosen.bar}", description=bar.__doc__)
    bar.add_arguments(options)
    parsed = options.parse_args(rest)
    parsed.measure = bar.measure
    return parsed


def main() -> int:
    """Run the bar and print its figure."""
    options = parse()
    figure = options.measure(options)
    print(figure)
    return 0 if figure.reached else 1


if __name__ == "__main__":
    sys.exit(main())
