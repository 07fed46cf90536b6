"""A terminal that is drawn in place, or plain lines where there is none."""

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Protocol, TextIO, TypeAlias

from msgspec import Struct, field

from watchword.api.text import escape_text

ESC = "\x1b["
_NO_WRAP, _WRAP = f"{ESC}?7l", f"{ESC}?7h"
_HIDE_CURSOR, _SHOW_CURSOR = f"{ESC}?25l", f"{ESC}?25h"
_CLEAR_LINE, _CLEAR_BELOW, _CLEAR_ALL, _RESET = f"{ESC}K", f"{ESC}J", f"{ESC}2J{ESC}H", f"{ESC}0m"
MIN_SIZE = (20, 5)


class Style(Enum):
    """A style of text; the value is the terminal's escape code."""

    PLAIN = ""
    BOLD = "1"
    DIM = "2"
    GOOD = "32"
    WARN = "33"
    BAD = "31"


StyledLine: TypeAlias = Sequence[tuple[str, Style]]


class TerminalSize(Struct, frozen=True):
    """Of a terminal, in characters."""

    columns: int
    rows: int


def plain_text(line: StyledLine) -> str:
    return "".join(text for text, _ in line)


def truncate(line: StyledLine, columns: int) -> StyledLine:
    """Return a line cut to a width; what is cut is marked."""
    if len(plain_text(line)) <= columns:
        return line
    left, kept = max(columns - 1, 0), []
    for text, style in line:
        kept.append((text[:left], style))
        left -= len(text)
        if left <= 0:
            break
    return [*kept, ("…"[:columns], Style.DIM)]


def render_line(line: StyledLine, *, color: bool) -> str:
    if not color:
        return plain_text(line)
    return "".join(f"{ESC}{style.value}m{text}{_RESET}" if style.value and text else text for text, style in line)


def supports_color(stream: TextIO, environment: Mapping[str, str]) -> bool:
    """Whether colors are welcome: on a terminal, unless NO_COLOR is set to anything."""
    return stream.isatty() and not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"


def can_redraw(stream: TextIO, environment: Mapping[str, str]) -> bool:
    return stream.isatty() and environment.get("TERM", "dumb") != "dumb"


def supports_unicode(stream: TextIO) -> bool:
    return (getattr(stream, "encoding", "") or "").lower().replace("-", "") == "utf8"


def terminal_size(stream: TextIO) -> TerminalSize:
    try:
        found = os.get_terminal_size(stream.fileno())
    except (OSError, ValueError):
        found = shutil.get_terminal_size()
    return TerminalSize(max(found.columns, MIN_SIZE[0]), max(found.lines, MIN_SIZE[1]))


class Writable(Protocol):
    """The methods of a stream that drawing needs."""

    def write(self, text: str, /) -> int: ...

    def flush(self) -> None: ...


class Screen(Struct):
    """Draws a frame over the one before; a frame never scrolls, so the way back is known."""

    stream: Writable
    color: bool
    size: Callable[[], TerminalSize]
    _height: int = 0
    _drawn_at: TerminalSize | None = None
    _shown: list[str] = field(default_factory=list)

    def draw(self, lines: Sequence[StyledLine]) -> None:
        size = self.size()
        fitted = [
            truncate([(escape_text(text), style) for text, style in line], size.columns)
            for line in lines[: size.rows - 1]
        ]
        rows = [render_line(line, color=self.color) for line in fitted]
        if size == self._drawn_at and rows == self._shown:
            return
        self.stream.write(self._back(size) + "".join(f"{_CLEAR_LINE}{row}\r\n" for row in rows) + _CLEAR_BELOW)
        self.stream.flush()
        self._height, self._drawn_at, self._shown = len(rows), size, rows

    def close(self) -> None:
        """Leave the last frame where it is, and the terminal as it was."""
        if self._drawn_at is not None:
            # What was typed meanwhile, such as the ^C, stands where the next words go.
            self.stream.write(f"\r{_CLEAR_LINE}{_WRAP}{_SHOW_CURSOR}")
            self.stream.flush()

    def _back(self, size: TerminalSize) -> str:
        if self._drawn_at is None:
            return _HIDE_CURSOR + _NO_WRAP
        if size != self._drawn_at:  # the terminal has moved lines about in its own way
            return _CLEAR_ALL
        return f"{ESC}{self._height}A\r" if self._height else "\r"
