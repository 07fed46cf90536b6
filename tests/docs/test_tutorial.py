"""Every command of the tutorial works, in order and in the terminal that it names, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest

ROOT = Path(__file__).parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
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
    def new_terminal(self) -> bool:
        return "new terminal" in self.mark

    @property
    def after_interrupt(self) -> bool:
        return "after Ctrl-C in the last terminal" in self.mark

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
def staying(block: Block, folder: Path, env: Mapping[str, str]) -> Iterator[None]:
    """Run a command that keeps running, in a terminal of its own, from its ready message until Ctrl-C."""
    *before, command = block.commands
    script = "\n".join(["set -euo pipefail", *before, f"exec {command}"])
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, text=True)
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


@dataclass
class Reader:
    """A person who follows the page: in a folder, with terminals that know nothing of each other."""

    folder: Path
    fresh: Mapping[str, str]  # the environment of a new terminal
    current: Mapping[str, str] = field(default_factory=dict)
    staying: list[ExitStack] = field(default_factory=list)

    def follow(self, block: Block) -> None:
        """Do what a block says, and check what it answers."""
        if block.after_interrupt:
            self.staying.pop().close()
        if block.ready:
            self.staying.append(ExitStack())
            self.staying[-1].enter_context(staying(block, self.folder, self.fresh))
            return
        if block.new_terminal:
            self.current = self.fresh
        said = self._type(block)
        assert missing(block.answers, said) == set(), said

    def _type(self, block: Block) -> str:
        script = "\n".join(["set -euo pipefail", *block.commands, "env -0 >&3"])
        with tempfile.TemporaryFile() as left:
            done = subprocess.run(
                ["bash", "-c", f"exec 3>&{left.fileno()}\n{script}"], pass_fds=[left.fileno()],
                cwd=self.folder, env=self.current, capture_output=True, text=True, timeout=PATIENCE, check=False,
            )  # fmt: skip
            left.seek(0)
            rows = left.read().decode().rstrip("\0").split("\0")
        assert done.returncode == 0, f"{block.commands}\n{done.stdout}{done.stderr}"
        self.current = dict(row.partition("=")[::2] for row in rows)
        return done.stdout

    def close(self) -> None:
        """Press Ctrl-C in every terminal that is open."""
        while self.staying:
            self.staying.pop().close()


def files_in(folder: Path) -> list[str]:
    """Return the files in a folder; those behind links belong to others."""
    found = (Path(parent, name) for parent, _, names in os.walk(folder) for name in names)
    return [str(path.relative_to(folder)) for path in found]


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A person in a checkout after `make setup`; the commands run the sources beside this test."""
    home, checkout = tmp_path / "home", tmp_path / "checkout"
    home.mkdir()
    checkout.mkdir()
    (checkout / ".venv").symlink_to(Path(sys.executable).parents[1])
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    path = [folder for folder in os.environ["PATH"].split(":") if not Path(folder, "watchword").exists()]
    fresh = {**kept, "HOME": str(home), "PATH": ":".join(path), "PYTHONUTF8": "1", "PYTHONPATH": str(ROOT / "src")}
    person = Reader(checkout, fresh)
    yield person
    person.close()


def test_every_block_of_commands_is_run() -> None:
    blocks = read_blocks(TUTORIAL.read_text())

    assert [block.mark != "" for block in blocks] == [False] * BEFORE_THE_TEST + [True] * (len(blocks) - 1)
    assert all(block.commands for block in blocks)


def test_the_commands_run_the_sources_beside_this_test(reader: Reader) -> None:
    script = '.venv/bin/python -c "import watchword; print(watchword.__file__)"'

    reader.follow(Block("run: new terminal", (script,), (str(ROOT / "src" / "watchword" / "__init__.py"),)))


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_tutorial_works_from_its_first_command_to_its_last(reader: Reader, tmp_path: Path) -> None:
    has_kubectl = shutil.which("kubectl", path=reader.fresh["PATH"]) is not None
    left_out: list[str] = []

    for block in read_blocks(TUTORIAL.read_text())[BEFORE_THE_TEST:]:
        if block.needs_kubectl and not has_kubectl:
            left_out += block.commands
        else:
            reader.follow(block)
    reader.close()

    assert files_in(reader.folder) == []
    assert [name for name in files_in(tmp_path / "home") if not name.startswith(".kube/cache")] == []
    if left_out:
        pytest.skip(f"kubectl is not installed, so all ran but: {'; '.join(left_out)}")
