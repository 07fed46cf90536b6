"""The emulated cloud of a fleet on this machine."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from watchword.admin.errors import InvalidInput, NotReady
from watchword.local.cloud import LocalCloud, read_cloud_files
from watchword.local.trials import AwsTrial


@pytest.mark.parametrize("command", ["", "no-such-program --flag"])
def test_missing_emulator_is_reported_with_the_variable_that_names_it(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AwsTrial.variable, command)

    with pytest.raises(InvalidInput, match=r"an emulator of aws: set \$WATCHWORD_AWS_EMULATOR to its command"):
        LocalCloud(AwsTrial(), tmp_path / "aws").emulator_command()


@pytest.mark.real_time
async def test_emulator_that_ends_at_once_is_reported_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(AwsTrial.variable, f"{sys.executable} -m no_such_module")
    cloud = LocalCloud(AwsTrial(), tmp_path / "aws")

    with pytest.raises(NotReady, match=r"has ended: .*emulator\.log says why"):
        await cloud.start(tmp_path / "hub", [])

    await cloud.stop()
    assert "no_such_module" in (tmp_path / "aws" / "emulator.log").read_text()


def test_backup_has_what_the_emulator_needs_to_continue(tmp_path: Path) -> None:
    assert read_cloud_files(tmp_path) == {}
    folder = tmp_path / "aws"
    folder.mkdir()
    folder.joinpath("journal.jsonl").write_bytes(b"changes")
    folder.joinpath("hub.token").write_bytes(b"made at each start")

    assert read_cloud_files(tmp_path) == {"aws/journal.jsonl": b"changes"}
