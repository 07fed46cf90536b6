"""What an agent does not wait for when it starts."""

from __future__ import annotations

import pytest
from tests.helpers.fresh_imports import modules_after


@pytest.mark.parametrize(
    "module",
    ["joserfc", "lzma", "shutil", "tempfile", "watchword.work", "watchword.cel", "yaml"],
)
def test_agent_does_not_import_what_few_agents_use(module: str) -> None:
    assert module not in modules_after("watchword.cli.agent", "watchword.processes.agent", "watchword.runtime.logs")
