"""What the image is built from: the same folder gives the same bytes, and every package is listed and locked."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path
from zipfile import ZipFile

import pytest
from tests.e2e.install.conftest import ROOT, build

from tools.image import AWS_SERVICES, EXTRAS, image_configuration
from tools.image_layout import ImageConfiguration, write_layout
from tools.image_sbom import Component, deb_component, write_sbom
from tools.locked_wheels import locked_requirements, requirement_names

CONFIGURATION = ImageConfiguration(
    entrypoint=("/usr/local/bin/watchword",),
    command=("--help",),
    user="65532:65532",
    environment=(),
    created=1_760_000_000,
    labels={},
)


def a_folder(folder: Path, names: tuple[str, ...], time: int) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (time, time))
    return folder


def digest_of(folder: Path) -> str:
    return write_layout(folder, folder.with_suffix(".layout"), "1", CONFIGURATION)


def test_same_content_gives_the_same_digest_whenever_and_in_whatever_order_it_was_written(tmp_path: Path) -> None:
    first = a_folder(tmp_path / "first", ("usr/a", "usr/b", "etc/c"), 1_000_000_000)
    second = a_folder(tmp_path / "second", ("etc/c", "usr/b", "usr/a"), 1_500_000_000)

    assert digest_of(first) == digest_of(second)


def test_other_content_gives_another_digest(tmp_path: Path) -> None:
    first = a_folder(tmp_path / "first", ("usr/a",), 0)
    second = a_folder(tmp_path / "second", ("usr/b",), 0)

    assert digest_of(first) != digest_of(second)


def test_version_with_an_epoch_is_read_from_the_name_of_the_file() -> None:
    assert deb_component("libc6_1%3a2.36-9_amd64.deb") == Component("deb", "libc6", "1:2.36-9", "amd64")


def test_bill_of_materials_names_each_package_once() -> None:
    rows = json.loads(write_sbom([Component("pypi", "click", "8.3.0")] * 2, version="1"))["components"]

    assert [row["purl"] for row in rows] == ["pkg:pypi/click@8.3.0"]


def test_every_package_of_the_image_is_locked_by_hash() -> None:
    names = requirement_names(("grpc", "aws"))

    text = locked_requirements((ROOT / "requirements.lock").read_text(), names)

    assert {"cryptography", "grpclib", "boto3", "cffi"} <= names
    assert text.count("==") >= len(names)
    assert all("--hash=sha256:" in block for block in text.split("\n\n") if block.strip())


def test_package_that_the_lock_lacks_is_named() -> None:
    with pytest.raises(ValueError, match="no click"):
        locked_requirements("", ["click"])


def containerfile() -> list[tuple[str, str]]:
    """Return the instructions of deploy/Containerfile with their arguments."""
    text = (ROOT / "deploy" / "Containerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(line.split(maxsplit=1)[0], line.split(maxsplit=1)[1]) for line in lines]


def last(instruction: str) -> str:
    return [argument for name, argument in containerfile() if name == instruction][-1]


def test_containerfile_starts_containers_as_the_built_image_does() -> None:
    configuration = image_configuration(0)
    variables = dict(row.split("=", 1) for row in last("ENV").split())
    own = dict(row.split("=", 1) for row in configuration.environment if not row.startswith("PATH="))

    assert last("USER") == configuration.user
    assert json.loads(last("ENTRYPOINT")) == [Path(configuration.entrypoint[0]).name]
    assert json.loads(last("CMD")) == list(configuration.command)
    assert own.items() <= variables.items()
    assert f'org.opencontainers.image.title="{configuration.labels["org.opencontainers.image.title"]}"' in last("LABEL")
    assert f"watchword[{','.join(EXTRAS)}]" in last("RUN")


def test_containerfile_copies_all_that_the_wheel_is_made_of(wheel: Path, tmp_path: Path) -> None:
    copied = [
        word
        for name, words in containerfile()
        if name == "COPY" and "--from" not in words
        for word in words.split()[:-1]
    ]
    project = tmp_path / "project"
    project.mkdir()
    for name in copied:
        source = ROOT / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, project / name)
    made = build(project, tmp_path, "--wheel")

    with ZipFile(made) as ours, ZipFile(wheel) as wanted:
        assert set(ours.namelist()) == set(wanted.namelist())


def test_image_describes_every_service_of_aws_that_the_code_asks() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "src/watchword/registration/aws_irsa").glob("*.py"))
    asked = re.findall(r'(?:api\.call\(|find\(self\.api, |create_client\(|api, )"([a-z]+)"', sources)

    assert set(asked) == set(AWS_SERVICES)
