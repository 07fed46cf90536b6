"""Follows a page of the documentation: types its commands, in the terminals that it names, and compares the output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from subprocess import PIPE, STDOUT

import pytest
import yaml

from tools.documented_blocks import Block, Page

READY = re.compile(r'ready when it says "(?P<word>[^"]+)"')
ANSWER = re.compile(r"answers (?P<word>\w+)")
EXIT = re.compile(r"exits with (?P<code>\d+)")
PATIENCE = 120


def missing(answers: tuple[str, ...], said: str) -> set[str]:
    """Return the parts of the expected output that are missing: whole steps, else first words."""
    telltales = (line.partition(":")[0] if line.startswith("✓") else line.split()[0] for line in answers)
    return {telltale for telltale in telltales if telltale not in said}


@contextmanager
def staying(script: str, ready: str, folder: Path, env: Mapping[str, str]) -> Iterator[list[str]]:
    """Run a script that keeps running, in a terminal of its own, from its ready message until Ctrl-C."""
    process = subprocess.Popen(["bash", "-c", script], cwd=folder, env=env, stdout=PIPE, stderr=STDOUT, text=True)
    assert process.stdout is not None
    said: list[str] = []
    for line in process.stdout:
        said.append(line)
        if ready in line:
            break
    else:
        pytest.fail(f"{script} ended: {''.join(said)}")
    listener = threading.Thread(target=said.extend, args=(process.stdout,))
    listener.start()
    try:
        yield said
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        listener.join(PATIENCE)
        process.stdout.close()
    assert process.returncode in (0, 130), "".join(said)


@dataclass
class Reader:
    """A person who follows a page: in a folder, with terminals that know nothing of each other."""

    folder: Path
    fresh: dict[str, str]  # the environment of a new terminal
    current: dict[str, str] = field(default_factory=dict)
    staying: list[ExitStack] = field(default_factory=list)

    def prepare(self, page: Page) -> None:
        """Bring about what the page takes as given."""
        if page.fleet is not None:
            self._stay(f"exec watchword up {page.fleet}", "ready in")
            self.fresh["KUBECONFIG"] = str(Path(self.fresh["HOME"], ".local/state/watchword/kubeconfig"))
        for name in page.planes:
            self._stay(f"exec watchword apiserver --data-dir {self.folder / name} --port 0 --node", "serving")
        if page.planes:
            self.fresh["KUBECONFIG"] = str(merge_contexts(self.folder, page.planes))
        self.current = dict(self.fresh)

    def follow(self, block: Block) -> None:
        """Do what a block says, and compare what it answers."""
        if "after Ctrl-C in the last terminal" in block.mark:
            self.staying.pop().close()
        if ready := READY.search(block.mark):
            *before, command = block.commands
            script = "\n".join(["set -euo pipefail", *before, f"exec {command}"])
            env = self.fresh if "new terminal" in block.mark else self.current or self.fresh
            assert missing(block.answers, "".join(self._stay(script, ready["word"], env))) == set()
            return
        if "new terminal" in block.mark:
            self.current = dict(self.fresh)
        if block.before:
            self.type(Block(block.line, "", (block.before,)))
        block = self._fill(block)
        said = self.type(block)
        assert missing(block.answers, said) == set(), said

    def type(self, block: Block) -> str:
        """Type the commands in the current terminal, which keeps what they export."""
        answer, code = ANSWER.search(block.mark), EXIT.search(block.mark)
        script = "\n".join(["set -euo pipefail", *block.commands, "env -0 >&3"])
        if answer:  # a question is asked on a terminal only
            script = f"script -qec {shlex.quote(' && '.join(block.commands))} /dev/null"
        with tempfile.TemporaryFile() as left:
            done = subprocess.run(
                ["bash", "-c", f"exec 3>&{left.fileno()}\n{script}"], pass_fds=[left.fileno()], cwd=self.folder,
                env=self.current, input=f"{answer['word']}\n" if answer else "", capture_output=True, text=True,
                timeout=PATIENCE, check=False,
            )  # fmt: skip
            left.seek(0)
            rows = left.read().decode().rstrip("\0").split("\0")
        expected = int(code["code"]) if code else 0
        assert done.returncode == expected, f"line {block.line}: {block.commands}\n{done.stdout}{done.stderr}"
        if rows != [""]:
            self.current = dict(row.partition("=")[::2] for row in rows)
        return done.stdout

    def close(self) -> None:
        """Press Ctrl-C in every terminal that is open."""
        while self.staying:
            self.staying.pop().close()

    def _stay(self, script: str, ready: str, env: Mapping[str, str] | None = None) -> list[str]:
        self.staying.append(ExitStack())
        return self.staying[-1].enter_context(staying(script, ready, self.folder, env or self.fresh))

    def _fill(self, block: Block) -> Block:
        """Return the block with what its placeholders stand for now."""
        parts = [*block.commands, *block.answers]
        for name, words in block.placeholders:
            if any(name in part for part in parts):
                value = self.type(Block(block.line, "", (f"printf %s {words}",)))
                parts = [part.replace(name, value) for part in parts]
        count = len(block.commands)
        return replace(block, commands=tuple(parts[:count]), answers=tuple(parts[count:]))


def merge_contexts(folder: Path, names: Sequence[str]) -> Path:
    """Write one kubeconfig with a context for each control plane, the first one the current."""
    rows: dict[str, list[dict[str, object]]] = {kind: [] for kind in ("clusters", "users", "contexts")}
    for name in names:
        found = yaml.safe_load((folder / name / "admin.kubeconfig").read_text())
        rows["clusters"].append({**found["clusters"][0], "name": name})
        rows["users"].append({**found["users"][0], "name": name})
        rows["contexts"].append({"name": name, "context": {"cluster": name, "user": name}})
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "current-context": names[0], **rows}))
    path.chmod(0o600)
    return path


def environment(home: Path, sources: Path, path: str) -> dict[str, str]:
    """Return the environment of a new terminal; `watchword` there runs the sources beside this test."""
    programs = str(Path(sys.executable).parent)
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return {**kept, "HOME": str(home), "PATH": f"{programs}:{path}", "PYTHONUTF8": "1", "PYTHONPATH": str(sources)}
