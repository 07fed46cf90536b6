"""`python -m watchword`: the command line, also where the script is not on the path."""

import os
import signal
import threading
from collections.abc import MutableMapping

from watchword.cli.main import main

LIFELINE = "WATCHWORD_LIFELINE"
"""The variable with the descriptor of an unwritten pipe: when it closes, the parent is gone."""


def exit_with_parent(environment: MutableMapping[str, str]) -> None:
    """End this process when its parent has ended, even by `kill -9`; children do not inherit this."""
    descriptor = int(environment.pop(LIFELINE))
    os.set_inheritable(descriptor, False)
    threading.Thread(target=_wait, args=(descriptor,), name="lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    while os.read(descriptor, 1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    if LIFELINE in os.environ:
        exit_with_parent(os.environ)
    main()
