from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from tests.conftest import pytest_runtest_setup

from watchword.api.sensitive import Sensitive
from watchword.api.text import is_safe_text
from watchword.runtime.logs import configure_logging, redact, redact_text

JWT = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2lnbmF0dXJlLWhlcmU"
PEM = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIA\n-----END EC PRIVATE KEY-----"


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before, handlers, level = structlog.get_config(), list(root.handlers), root.level
    yield io.StringIO()
    structlog.configure(**before)
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
def log_lines(stream: io.StringIO) -> io.StringIO:
    configure_logging(level="debug", stream=stream)
    return stream


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(f"got {JWT} back", "got *** back", id="a JSON web token"),
        pytest.param(f"key {PEM} end", "key *** end", id="a private key"),
        pytest.param("-----BEGIN PRIVATE KEY-----\nMHcCAQ", "***", id="half a private key"),
        pytest.param("client-key-data: LS0tLS1CRUdJTiBFQyBQUklWQVRFIEtFWQ==", "client-key-data: ***", id="in base64"),
        pytest.param("Authorization: Bearer abc.def-ghi", "Authorization: Bearer ***", id="a bearer header"),
        pytest.param("proxy http://me:hunter2@proxy:3128", "proxy http://***@proxy:3128", id="a password in a URL"),
        pytest.param("token abcdef.0123456789abcdef used", "token abcdef.*** used", id="a bootstrap token"),
        pytest.param("cluster edge-1 in ns edge-1", "cluster edge-1 in ns edge-1", id="nothing secret"),
        pytest.param("edge.cluster.example.com:6443", "edge.cluster.example.com:6443", id="a host name"),
    ],
)
def test_text_that_looks_like_a_secret_is_redacted(text: str, expected: str) -> None:
    assert redact_text(text) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"token": "x"}, {"token": "***"}, id="by name"),
        pytest.param(
            {"bootstrap_token": "x", "client-secret": "y"},
            {"bootstrap_token": "***", "client-secret": "***"},
            id="by the end of the name",
        ),
        pytest.param({"private_key": "x"}, {"private_key": "***"}, id="a kind of key"),
        pytest.param(
            {"key": "ns/name", "token_id": "abc"},
            {"key": "ns/name", "token_id": "abc"},
            id="names that only sound alike",
        ),
        pytest.param([Sensitive("x")], ["***"], id="a typed secret"),
        pytest.param({"data": b"raw"}, {"data": "3 bytes"}, id="bytes"),
        pytest.param({"a": {"b": [{"password": "x"}]}}, {"a": {"b": [{"password": "***"}]}}, id="deep inside"),
        pytest.param(ValueError(JWT), "***", id="an exception"),
        pytest.param({"count": 3, "ok": True, "none": None}, {"count": 3, "ok": True, "none": None}, id="plain values"),
        pytest.param({"token": ""}, {"token": ""}, id="an empty secret is no secret"),
    ],
)
def test_secrets_are_found_by_name_type_and_looks(value: Any, expected: Any) -> None:
    assert redact(value) == expected


def test_a_structure_without_end_is_cut() -> None:
    endless: dict[str, Any] = {}
    endless["self"] = endless

    assert "…" in str(redact(endless))


def test_a_line_for_a_machine_is_one_json_object_with_its_context(log_lines: io.StringIO) -> None:
    structlog.contextvars.bind_contextvars(controller="lease")

    structlog.get_logger().info("reconciled", outcome="done", token="hunter2")

    line = json.loads(log_lines.getvalue())
    assert line.pop("timestamp").endswith("Z")
    assert line == {"message": "reconciled", "level": "info", "controller": "lease", "outcome": "done", "token": "***"}


def test_a_traceback_is_redacted_too(log_lines: io.StringIO) -> None:
    try:
        raise ValueError(JWT)
    except ValueError:
        structlog.get_logger().exception("reconcile failed")

    assert JWT not in log_lines.getvalue()
    assert "ValueError" in log_lines.getvalue()


def test_lines_of_libraries_take_the_same_road(log_lines: io.StringIO) -> None:
    logging.getLogger("some.library").warning("sent %s", JWT)

    assert json.loads(log_lines.getvalue())["message"] == "sent ***"


def test_what_a_cluster_says_moves_no_cursor(stream: io.StringIO) -> None:
    configure_logging(stream=stream, json=False)

    structlog.get_logger().info("refused\x1b[2J\nfalse line", message="\x1b[1mbold", other="\u202eenil")

    assert is_safe_text(stream.getvalue(), keep="\n")
    assert len(stream.getvalue().splitlines()) == 1


def test_terminal_gets_text(stream: io.StringIO) -> None:
    configure_logging(stream=stream, json=False)

    structlog.get_logger().info("reconciled", key="ns/a")
    structlog.get_logger().debug("too quiet to hear")

    assert "reconciled" in stream.getvalue()
    assert "key=ns/a" in stream.getvalue()
    assert "quiet" not in stream.getvalue()


class FullDisk(io.StringIO):
    """A file that takes nothing any more."""

    def write(self, _text: str) -> int:
        raise OSError(28, "No space left on device")

    def flush(self) -> None:
        raise OSError(28, "No space left on device")


@pytest.mark.usefixtures("stream")  # puts logging back
@pytest.mark.parametrize("closed", [pytest.param(False, id="full"), pytest.param(True, id="closed")])
def test_unwritable_log_does_not_stop_the_process(closed: bool, capfd: pytest.CaptureFixture[str]) -> None:  # noqa: FBT001 - a column
    target = FullDisk()
    configure_logging(stream=target, json=True)
    if closed:
        target.close()

    structlog.get_logger("test").info("of ours")
    logging.getLogger("library").error("of others")

    assert capfd.readouterr() == ("", "")


def test_level_that_a_command_chose_ends_with_its_test(stream: io.StringIO) -> None:
    configure_logging(level="error", stream=stream)

    pytest_runtest_setup()

    with structlog.testing.capture_logs() as lines:
        structlog.get_logger().info("seen")
    assert [line["event"] for line in lines] == ["seen"]
