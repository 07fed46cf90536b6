"""What a program has imported once it has imported what it starts with."""

from __future__ import annotations

import subprocess
import sys
from functools import cache


@cache
def modules_after(*imported: str) -> frozenset[str]:
    """Return the modules of a new interpreter that imported these: it starts once in each process, not per test."""
    program = f"import sys, {', '.join(imported)}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return frozenset(done.stdout.split())
