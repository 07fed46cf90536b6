"""Logging of a process: text on a terminal, one JSON object per line otherwise."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO, cast

import structlog

from watchword.api.sensitive import REDACTED, Sensitive
from watchword.api.text import escape_text
from watchword.api.time import rfc3339_micro

# Names whose values are secrets. `key` alone is not one: it is the key of an object.
_SECRET_NAME = re.compile(
    r"(?:.*[_.-])?(?:token|tokens|secret|password|passwd|passphrase|authorization|cookie|bearer)|.*[_.-]key|.*key-data",
    re.IGNORECASE,
)
_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)"
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/=]{16,}"  # the same, or a certificate, in base64
    r"|eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)?"  # a JSON web token
    r"|(?<=[Bb]earer )[^\s\"',]+"
    r"|(?<=[Bb]asic )[A-Za-z0-9+/=]{8,}"
    r"|(?<=://)[^\s/@:]+:[^\s/@]+(?=@)"  # user and password in a URL
    r"|(?<=\b[a-z0-9]{6}\.)[a-z0-9]{16}\b",  # the secret half of a bootstrap token
    re.DOTALL,
)
_DEPTH = 6


def redact_text(text: str) -> str:
    return _SECRET_TEXT.sub(REDACTED, text)


def redact(value: Any, *, depth: int = _DEPTH) -> Any:
    """Return the value as plain data without secrets; unknown types become redacted text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Mapping | list | tuple | set | frozenset):
        if depth == 0:
            return "…"
        if isinstance(value, Mapping):
            return redact_fields(value, depth=depth - 1)
        return [redact(item, depth=depth - 1) for item in value]
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes"
    return REDACTED if isinstance(value, Sensitive) else redact_text(str(value))


def redact_fields(fields: Mapping[Any, Any], *, depth: int = _DEPTH) -> dict[str, Any]:
    """Return named values without secrets: recognised by name as well as by form."""
    return {
        str(name): REDACTED if _SECRET_NAME.fullmatch(str(name)) and value else redact(value, depth=depth)
        for name, value in fields.items()
    }


if TYPE_CHECKING:
    from structlog.typing import Processor


def configure_logging(*, level: str = "info", stream: TextIO | None = None, json: bool | None = None) -> None:
    """Set up logging for the whole process; call it once, at the start of a program.

    Lines of libraries that use the standard library's logging go through the same processors, so that they
    are redacted too. Without `json`, the stream decides: text on a terminal.
    """
    target = stream if stream is not None else sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    as_json = json if json is not None else not target.isatty()
    render: list[Processor] = [structlog.processors.EventRenamer("message"), structlog.processors.JSONRenderer()]
    if not as_json:
        plain = structlog.dev.plain_traceback
        render = [escape_event, structlog.dev.ConsoleRenderer(colors=target.isatty(), exception_formatter=plain)]
    # Tracebacks become text before the redaction, or they would bypass it.
    shared: list[Processor] = [
        structlog.processors.add_log_level,
        stamp_event,
        structlog.processors.format_exc_info,
        redact_event,
    ]
    kept = cast("TextIO", NonFailingStream(target))
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, *shared, *render],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(file=kept),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(kept)
    redacting = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, redact_event, *render]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(foreign_pre_chain=shared, processors=redacting))
    logging.basicConfig(handlers=[handler], level=max(number, logging.WARNING), force=True)


class NonFailingStream:
    """A stream whose writes never fail: a full disk or a closed pipe must not stop the process."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):  # ValueError: the stream is closed
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return redact_fields(event)


def escape_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Take control characters out of a line for a terminal: a structlog processor; JSON escapes them by itself."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escape_text(value, keep="\n" if name == "exception" else "")
    return event


def stamp_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    event["timestamp"] = rfc3339_micro(datetime.now(UTC))
    return event
