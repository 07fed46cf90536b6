"""Secrets on the command line: named by where they are, so that they need not stand in process lists."""

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO

import click
from msgspec import Struct, field

from watchword.cli.output import interruptible

MAXIMUM_BYTES = 64 * 1024
TOKEN_VARIABLE = "WATCHWORD_TOKEN"  # noqa: S105 - the name of a variable
HELP = "Also @FILE, or - for standard input"


class SecretReader(Struct):
    """Reads `@FILE`, `-` or the value itself; standard input is read once."""

    standard_input: Callable[[], BinaryIO] = lambda: sys.stdin.buffer
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)
    _taken: bool = False

    def read(self, value: str) -> str:
        """Return the secret that a value names, without the line break at its end."""
        if value == "-":
            self.take_standard_input()
            with interruptible():
                return self._text(self.standard_input().read(MAXIMUM_BYTES + 1), "standard input")
        if value.startswith("@"):
            try:
                with Path(value[1:]).open("rb") as file:
                    return self._text(file.read(MAXIMUM_BYTES + 1), value[1:])
            except OSError as cause:
                raise click.UsageError(f"{value[1:]}: {(cause.strerror or 'cannot be read').lower()}") from cause
        return value

    def from_environment(self) -> str:
        return self.environment.get(TOKEN_VARIABLE, "")

    def take_standard_input(self) -> None:
        """Report that something else reads standard input."""
        if self._taken:
            raise click.UsageError("standard input can be read for one value only: give the other as @FILE")
        self._taken = True

    @staticmethod
    def _text(data: bytes, where: str) -> str:
        if len(data) > MAXIMUM_BYTES:
            raise click.UsageError(f"{where} is far too large for a token: is it the right file?")
        if not data.strip():
            raise click.UsageError(f"{where} is empty: write the secret to it")
        return data.decode("ascii", "replace").strip()
