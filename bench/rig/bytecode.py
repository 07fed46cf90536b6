"""Compiles the modules that measured processes import, so that none of them compiles while it is measured."""

from __future__ import annotations

import compileall
from pathlib import Path


def compile_modules(folder: Path) -> None:
    """Write the bytecode of every module under a folder where it is missing or older than its source."""
    if not compileall.compile_dir(folder, quiet=1):
        raise SystemExit(f"cannot compile the modules in {folder}: see the messages above")
