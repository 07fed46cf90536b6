"""What an agent does not wait for when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = "import sys, watchword.cli.agent, watchword.processes.agent, watchword.runtime.logs"


@pytest.mark.parametrize(
    "module",
    ["joserfc", "lzma", "rich", "shutil", "tempfile", "watchword.work", "watchword.cel"],
)
def test_agent_does_not_import_what_few_agents_use(module: str) -> None:
    program = f"{START}; sys.exit({module!r} in sys.modules)"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("yaml.reader.Reader.NON_PRINTABLE", id="YAML in Python"),
        pytest.param("cryptography.x509.name._RFC4514NameParser._STRING_RE", id="names as text"),
    ],
)
def test_agent_does_not_compile_slow_patterns_of_libraries(pattern: str) -> None:
    program = f"{START}; import re, yaml, cryptography.x509; sys.exit(isinstance({pattern}, re.Pattern))"

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
