"""Logging of a process: text on a terminal, one JSON object per line otherwise."""

from __future__ import annotations

import logging
import sys
from collections.abc import MutableMapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from watchword._structlog import structlog
from watchword.api.text import escape_text
from watchword.api.time import rfc3339_micro
from watchword.runtime.clock import Clock, SystemClock
from watchword.runtime.redaction import redact_fields

if TYPE_CHECKING:
    from structlog.typing import Processor


def configure_logging(
    *, level: str = "info", stream: TextIO | None = None, json: bool | None = None, clock: Clock | None = None
) -> None:
    """Set up logging for the whole process; call it once, at the start of a program.

    Lines of libraries that use the standard library's logging go through the same processors, so that they
    are redacted too. Without `json`, the stream decides: text on a terminal.
    """
    target = stream if stream is not None else sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = json if json is not None else not target.isatty()
    render = _renderer(as_json=as_json, colors=target.isatty())
    shared = _shared(clock or SystemClock())
    kept = cast("TextIO", NonFailingStream(target))
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=kept),
        cache_logger_on_first_use=False,
    )
    _adopt_standard_logging(kept, number, shared, render)


class NonFailingStream:
    """A stream whose writes never fail: a full disk or a closed pipe must not stop the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text; drop it when that fails."""
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush; ignore a failure."""
        with suppress(OSError, ValueError):
            self._stream.flush()


def redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Remove secrets from a log line: a structlog processor."""
    return redact_fields(event)


def escape_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take control characters out of a line for a terminal: a structlog processor; JSON escapes them by itself."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escape_text(value, keep="\n" if name == "exception" else "")
    return event


def _shared(clock: Clock) -> list[Processor]:
    def stamp(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        event["timestamp"] = rfc3339_micro(clock.now())
        return event

    # Tracebacks become text before the redaction, or they would bypass it.
    return [structlog.processors.add_log_level, stamp, structlog.processors.format_exc_info, redact_event]


def _renderer(*, as_json: bool, colors: bool) -> list[Processor]:
    if as_json:
        return [structlog.processors.EventRenamer("message"), structlog.processors.JSONRenderer()]
    console = structlog.dev.ConsoleRenderer(colors=colors, exception_formatter=structlog.dev.plain_traceback)
    return [escape_event, console]


def _adopt_standard_logging(target: TextIO, level: int, shared: list[Processor], render: list[Processor]) -> None:
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact_event, *render],
        )
    )
    logging.basicConfig(handlers=[handler], level=max(level, logging.WARNING), force=True)
