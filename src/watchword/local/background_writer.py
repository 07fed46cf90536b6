"""Writes to a terminal without blocking the writers."""

from __future__ import annotations

import os
import threading
from collections import deque
from typing import TextIO

CLOSE_TIMEOUT = 1.0  # seconds that the end of a program waits for a terminal that does not take what is written
MAX_QUEUED = 10_000  # texts; beyond that, output to a terminal that does not read is lost


class BackgroundWriter:
    """A text stream whose writes return immediately; a thread of its own waits for the terminal.

    A terminal may be stopped (Ctrl-S) or slow: the fleet must not stop because of it.
    """

    def __init__(self, stream: TextIO) -> None:
        stream.flush()
        self._descriptor = stream.fileno()
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._waiting: deque[bytes] = deque(maxlen=MAX_QUEUED)
        self._ready = threading.Condition()
        self._closed = False
        self.reader_closed = False  # whether the reader has closed its end
        self.busy = False  # whether something written has not arrived yet
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Take over a text."""
        with self._ready:
            self._waiting.append(text.encode(self._encoding, "replace"))
            self.busy = True
            self._ready.notify()
        return len(text)

    def flush(self) -> None:
        """Return: whatever was written is on its way."""

    def close(self) -> None:
        """Wait until everything has arrived, but not for ever."""
        with self._ready:
            self._closed = True
            self._ready.notify()
        self._thread.join(CLOSE_TIMEOUT)

    def _work(self) -> None:
        while True:
            with self._ready:
                while not self._waiting:
                    self.busy = False
                    if self._closed:
                        return
                    self._ready.wait()
                data = self._waiting.popleft()
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:
                self.reader_closed = True
                return
