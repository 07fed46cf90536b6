"""What `make bench` runs: the clients against each other, then the runtime."""

from __future__ import annotations

from bench import reconciles
from bench.clients import comparison
from watchword.runtime.event_loop import run


def main() -> None:
    """Print both."""
    comparison.main()
    run(reconciles.main())


if __name__ == "__main__":
    main()
