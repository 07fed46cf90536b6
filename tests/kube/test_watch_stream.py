"""Lines of a watch: cut right wherever the chunks break, decoded or refused."""

from __future__ import annotations

from contextlib import suppress

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.kube.errors import Gone, KubeError, MalformedResponse
from watchword.kube.watch_stream import LineSplitter, WatchEvent, parse_watch_event


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=20)))
def test_lines_are_the_same_however_they_are_chunked(chunks: list[bytes]) -> None:
    splitter = LineSplitter()

    lines = [line for chunk in chunks for line in splitter.feed(chunk)]

    *whole, tail = b"".join(chunks).split(b"\n")
    assert lines == [line for line in whole if line.strip()]
    assert splitter.pending == bool(tail)


@pytest.mark.parametrize("chunk", [b"x" * 11, b"ok\n" + b"x" * 11], ids=["first line", "second line"])
def test_an_endless_line_is_refused(chunk: bytes) -> None:
    splitter = LineSplitter(limit=10)

    with pytest.raises(MalformedResponse, match="more than 10 bytes"):
        splitter.feed(chunk)


def test_an_event_keeps_its_object_as_it_came() -> None:
    raw = b'{"metadata": {"resourceVersion": "7"},  "x": 1.50}'

    event = parse_watch_event(b'{"type":"ADDED","object":' + raw + b"}")

    assert event == WatchEvent("ADDED", raw, "7")
    assert event.decode()["x"] == 1.5


def test_error_event_is_raised_as_the_error_it_describes() -> None:
    status = {"kind": "Status", "code": 410, "message": "too old resource version"}

    with pytest.raises(Gone, match="too old"):
        parse_watch_event(orjson.dumps({"type": "ERROR", "object": status}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)
OBJECT = st.fixed_dictionaries({"metadata": st.fixed_dictionaries({}, optional={"resourceVersion": JSON})})
TYPES = st.sampled_from(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "OTHER"])
EVENT = st.fixed_dictionaries({"type": TYPES | JSON, "object": JSON | OBJECT})


@settings(max_examples=60)
@given(st.binary() | EVENT.map(orjson.dumps))
def test_no_line_raises_anything_but_our_errors(line: bytes) -> None:
    with suppress(KubeError):
        assert isinstance(parse_watch_event(line).resource_version, str)
