"""The emulated cloud of a fleet on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from watchword.admin.errors import NotReady, OperationRefused
from watchword.local.cloud import LocalCloud, read_cloud_files
from watchword.registration.aws_irsa.trial import TRIAL


def test_missing_library_is_named_with_the_command_that_installs_it(tmp_path: Path) -> None:
    cloud = LocalCloud(replace(TRIAL, libraries=("msgspec", "no_such_library")), tmp_path / "aws")

    with pytest.raises(OperationRefused, match=r"needs no_such_library: run pip install 'watchword\["):
        cloud.require_libraries()


@pytest.mark.real_time
async def test_emulator_that_ends_at_once_is_reported_with_its_log(tmp_path: Path) -> None:
    cloud = LocalCloud(replace(TRIAL, module="watchword.no_such_module"), tmp_path / "aws")

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
