"""Runs the test suite many times, each in another random order, every second time with all cores busy.

Usage: python -m tools.repeat_tests [--rounds=10] [--seed=1] [pytest arguments]

It prints one line for each run and fails when one of them failed; `pytest --shuffle=SEED` repeats its order.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

BUSY = (sys.executable, "-c", "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass")
SUITE = (sys.executable, "-m", "pytest", "--numprocesses=auto", "--dist=worksteal", "--quiet")


def main() -> int:
    """Run the rounds and return 0 when all were green."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the first round; the next have the next")
    options, arguments = parser.parse_known_args()
    green = 0
    for number in range(options.rounds):
        seed, loaded = options.seed + number, number % 2 == 1
        with busy_cores(os.cpu_count() or 1 if loaded else 0):
            code = subprocess.run([*SUITE, f"--shuffle={seed}", *arguments], check=False).returncode
        green += code == 0
        load = "every core busy" if loaded else "idle"
        print(f"round {number + 1}: --shuffle={seed}, {load}: {'green' if code == 0 else f'exit code {code}'}")
    print(f"green rounds: {green} of {options.rounds}")
    return 0 if green == options.rounds else 1


@contextmanager
def busy_cores(number: int) -> Iterator[None]:
    """Keep that many cores busy meanwhile."""
    running = [subprocess.Popen(BUSY) for _ in range(number)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main())
