"""What an agent does not wait for when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = "import sys, watchword.cli.agent, watchword.processes.agent, watchword.runtime.logs"


@pytest.mark.parametrize(
    "module",
    ["joserfc", "lzma", "shutil", "tempfile", "watchword.work", "watchword.cel"],
)
def test_agent_does_not_import_what_few_agents_use(module: str) -> None:
    program = f"{START}; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
