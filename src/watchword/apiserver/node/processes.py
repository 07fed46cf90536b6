"""Runs containers as processes of this machine, which end with the server however it ends."""

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from watchword.api.limits import MAX_LOG_BYTES
from watchword.apiserver.node.model import HttpProbe, Launch

LIFELINE = "WATCHWORD_LIFELINE"
PROGRAM = ("-P", "-s", "-m", "watchword")
"""Without the working directory and the user's packages on the path: both lie where pods mount files."""


class RunningProcess(Struct):
    """A process in a session of its own, holding one end of a pipe whose other end is ours."""

    process: Process
    lifeline: int

    async def wait(self) -> int:
        try:
            code = await self.process.wait()
        finally:
            if self.lifeline >= 0:
                os.close(self.lifeline)
                self.lifeline = -1
        return code if code >= 0 else 128 - code

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL to the process and whatever it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self._signal(signal.SIGKILL)

    async def probe(self, probe_spec: HttpProbe) -> bool:
        """Probe over HTTP; no response is a failure."""
        host, port = probe_spec.host, probe_spec.port
        try:
            async with asyncio.timeout(probe_spec.timeout):
                reader, writer = await asyncio.open_connection(host, port)
                with contextlib.closing(writer):
                    request = f"GET {probe_spec.path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
                    writer.write(request.encode())
                    status = (await reader.readline()).split()
                    return len(status) > 1 and status[1].isdigit() and 200 <= int(status[1]) < 400
        except (OSError, TimeoutError, ValueError, OverflowError):  # also a host or port that cannot exist
            return False

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)


class ProcessRunner(Struct, frozen=True):
    """Starts `python -m watchword` with the container's arguments, in the container's folder."""

    executable: str = sys.executable

    async def start(self, launch: Launch) -> RunningProcess:
        launch.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        theirs, ours = os.pipe()
        try:
            with _open_log(launch.log) as log:
                process = await asyncio.create_subprocess_exec(
                    self.executable,
                    *PROGRAM,
                    *launch.arguments,
                    stdin=DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=launch.root,
                    env={**launch.environment, LIFELINE: str(theirs)},
                    pass_fds=(theirs,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        return RunningProcess(process, ours)


def _open_log(path: Path) -> BinaryIO:
    if path.exists() and path.stat().st_size > MAX_LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600), "ab")
