"""Every command of the tutorial works, in order, as a reader would run it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"(?:<!-- (?P<mark>run[^>]*?) -->\n)?```(?:console|sh)\n(?P<text>.*?)\n```", re.DOTALL)
READY = re.compile(r'ready when it says "(?P<word>[^"]+)"')
BEFORE_THE_TEST = 1  # the block that makes the environment in which the tests run
PATIENCE = 90


@dataclass(frozen=True)
class Block:
    """A console block: commands, expected output, and how to run it."""

    mark: str
    commands: tuple[str, ...]
    answers: tuple[str, ...]

    @property
    def ready(self) -> str:
        found = READY.search(self.mark)
        return found["word"] if found else ""

    @property
    def needs_kubectl(self) -> bool:
        return "needs kubectl" in self.mark


def read_blocks(text: str) -> list[Block]:
    return [_read(match["mark"] or "", match["text"].splitlines()) for match in BLOCK.finditer(text)]


def _read(mark: str, lines: list[str]) -> Block:
    commands = tuple(line.removeprefix("$ ") for line in lines if line.startswith("$ "))
    return Block(mark, commands, tuple(line for line in lines if line and not line.startswith("$ ")))


def missing(answers: tuple[str, ...], said: str) -> set[str]:
    """Return the parts of the expected output that are missing: whole steps, else first words."""
    telltales = (line.partition(":")[0] if line.startswith("✓") else line.split()[0] for line in answers)
    return {telltale for telltale in telltales if telltale not in said}


@contextmanager
def staying(block: Block, home: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a command that keeps running, as in a terminal of its own, from its ready message until Ctrl-C."""
    (command,) = block.commands
    process = subprocess.Popen(
        ["bash", "-c", f"exec {command}"], cwd=home, env=env, stdout=PIPE, stderr=STDOUT, text=True
    )
    assert process.stdout is not None
    said: list[str] = []
    try:
        for line in process.stdout:
            said.append(line)
            if block.ready in line:
                break
        else:
            pytest.fail(f"{command} ended: {''.join(said)}")
        assert missing(block.answers, "".join(said)) == set(), "".join(said)
        listener = threading.Thread(target=said.extend, args=(process.stdout,))
        listener.start()
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
    listener.join(PATIENCE)
    process.stdout.close()
    assert process.returncode == 0, "".join(said)


def typed(block: Block, home: Path, env: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Run the commands of a block; return their output and the environment that they leave."""
    script = "\n".join(["set -euo pipefail", *block.commands, "env -0 > .environment"])
    done = subprocess.run(
        ["bash", "-c", script], cwd=home, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, f"{block.commands}\n{done.stdout}{done.stderr}"
    left = (home / ".environment").read_text().rstrip("\0").split("\0")
    return done.stdout, dict(row.partition("=")[::2] for row in left)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**kept, "HOME": str(tmp_path), "PATH": path, "PYTHONUTF8": "1"}


def test_every_block_of_commands_is_run() -> None:
    blocks = read_blocks(TUTORIAL.read_text())

    assert [block.mark != "" for block in blocks] == [False] * BEFORE_THE_TEST + [True] * (len(blocks) - 1)
    assert all(block.commands for block in blocks)


@pytest.mark.timeout(300)
def test_the_tutorial_works_from_its_first_command_to_its_last(tmp_path: Path, environment: dict[str, str]) -> None:
    has_kubectl = shutil.which("kubectl") is not None
    left_out: list[str] = []

    with ExitStack() as terminals:
        for block in read_blocks(TUTORIAL.read_text())[BEFORE_THE_TEST:]:
            if block.needs_kubectl and not has_kubectl:
                left_out += block.commands
            elif block.ready:
                terminals.enter_context(staying(block, tmp_path, environment))
            else:
                said, environment = typed(block, tmp_path, environment)
                assert missing(block.answers, said) == set(), said

    if left_out:
        pytest.skip(f"kubectl is not installed, so all ran but: {'; '.join(left_out)}")
