"""A terminal that does not accept output delays nothing."""

from __future__ import annotations

import os

import pytest

from watchword.local.output import BackgroundWriter

MORE_THAN_A_PIPE_HOLDS = "x" * 1_000_000


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def test_everything_written_arrives_in_order(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        background_writer = BackgroundWriter(stream)
        background_writer.write("one\n")
        background_writer.write("zwö\n")
        background_writer.close()

    with os.fdopen(reader, encoding="utf-8") as received:
        assert received.read() == "one\nzwö\n"


def test_slow_reader_does_not_delay_others(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    stream = os.fdopen(writer, "w", encoding="utf-8")
    background_writer = BackgroundWriter(stream)

    background_writer.write(MORE_THAN_A_PIPE_HOLDS)
    background_writer.write("and more")

    assert background_writer.busy
    os.close(reader)  # lets the thread go
    background_writer.close()
    assert background_writer.reader_closed
    stream.close()


def test_a_reader_that_has_left_is_noticed(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.close(reader)
    with os.fdopen(writer, "w", encoding="utf-8") as stream:
        background_writer = BackgroundWriter(stream)

        background_writer.write("is anybody there?")
        background_writer.close()

        assert background_writer.reader_closed
