"""`python -m watchword`: the command line, also where the script is not on the path."""

from __future__ import annotations

import os

from watchword.cli.main import main

if __name__ == "__main__":
    if "WATCHWORD_LIFELINE" in os.environ:
        from watchword.cli._parent_process import exit_with_parent

        exit_with_parent(os.environ)
    main()
