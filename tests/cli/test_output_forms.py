"""Answers for scripts: names as kubectl prints them, parts by JSONPath, rehearsals without secrets."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from watchword.api.resources import MANAGED_CLUSTERS
from watchword.apiserver.access.pki_directory import PkiDirectory
from watchword.apiserver.store.model import StoreOpenError
from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import cli
from watchword.cli.output import fill_template
from watchword.cli.token import COLUMNS, token_row
from watchword.discovery.token_secret import TokenRecord
from watchword.discovery.tokens import BootstrapToken, BootstrapTokenLimits
from watchword.testing.builders import a_cluster

if TYPE_CHECKING:
    from tests.cli.conftest import Fleet, Member

DOCUMENT = {"items": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]}
TOKEN = re.compile(r"[a-z0-9]{6}\.[a-z0-9]{16}")


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        pytest.param("{.items[*].name}", "a b", id="many"),
        pytest.param(".items[0].name", "a", id="without braces"),
        pytest.param("{.items[1].n}{'\\n'}{.missing}", "2\n", id="text between"),
        pytest.param("{$.items[0]}", '{"name":"a","n":1}', id="a whole object"),
    ],
)
def test_fill_template(template: str, expected: str) -> None:
    assert fill_template(DOCUMENT, template) == expected


@pytest.mark.parametrize("template", ["{range .items}", "{.items[0].name", "{.items[*].name}{", "{.items[0"])
def test_a_template_that_is_no_path_is_refused(template: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write a path like"):
        fill_template(DOCUMENT, template)


def test_the_list_of_tokens_shows_what_each_is_bound_to() -> None:
    record = TokenRecord(BootstrapToken.generate(), limits=BootstrapTokenLimits(("edge-*", "lab"), 3))
    row = dict(zip(COLUMNS, token_row(record, datetime(2030, 1, 1, tzinfo=UTC), secrets=False), strict=True))

    assert (row["CLUSTERS"], row["MAX USES"]) == ("edge-*,lab", "3")


def test_a_damaged_key_file_is_named(tmp_path: Path) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    PkiDirectory(tmp_path, ("localhost",), lambda: now)
    (tmp_path / "service-accounts.key").write_bytes(b"garbage")

    with pytest.raises(StoreOpenError, match=re.escape(str(tmp_path / "service-accounts.key"))):
        PkiDirectory(tmp_path, ("localhost",), lambda: now + timedelta(days=1))


@pytest.mark.real_time
async def test_clusters_are_named_as_kubectl_names_them(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    name = cli_fleet.unique("edge")
    await cli_fleet.client.create(MANAGED_CLUSTERS, a_cluster(name))

    assert f"managedcluster.cluster.open-cluster-management.io/{name}\n" in await cli_fleet.run(
        "clusters", "-o", "name"
    )
    assert await cli_fleet.run("clusters", "show", name, "-o", "jsonpath={.metadata.name}") == f"{name}\n"


@pytest.mark.real_time
async def test_a_rehearsal_lists_objects_and_shows_no_token(member: Member) -> None:
    said = await member.fleet.run("init", "--dry-run", "--no-probe", "--show-token")
    made = await member.fleet.run("token", "create", "--dry-run", "-o", "json")
    joining = await member.join("--dry-run")

    assert "would apply clustermanager/cluster-manager" in said
    assert TOKEN.search(said + made) is None
    assert f"would apply klusterlet/{member.name}" in joining


@pytest.mark.real_time
async def test_a_repeated_join_of_a_joined_cluster_says_so(member: Member) -> None:
    await member.asks()
    await member.fleet.run("accept", "-c", member.name, "--wait")
    await member.joined()

    said = await member.join()

    assert said == f"{member.name}: has joined before; its settings are applied\n"


def test_contexts_are_completed_from_the_kubeconfig(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "config"
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("hub", "hub-2", "edge")]
    kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "contexts": contexts}))
    words = f"watchword status --kubeconfig {kubeconfig} --context hub"
    environment = {"_WATCHWORD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "5"}

    shown = CliRunner(env=environment).invoke(cli, prog_name="watchword").output

    assert shown.split() == ["plain,hub", "plain,hub-2"]


def test_nothing_is_completed_where_no_hub_answers(tmp_path: Path) -> None:
    words = f"watchword accept --kubeconfig {tmp_path / 'none'} --clusters e"
    environment = {"_WATCHWORD_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": "5"}

    assert CliRunner(env=environment).invoke(cli, prog_name="watchword").output.strip() == ""


def test_command_whose_reader_has_gone_ends_with_its_own_code() -> None:
    reader, writer = os.pipe()
    os.close(reader)

    ended = subprocess.run(
        [sys.executable, "-m", "watchword", "manifests", "crds"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writer)

    assert (ended.returncode, ended.stderr) == (ExitCode.BROKEN_PIPE, b"")
