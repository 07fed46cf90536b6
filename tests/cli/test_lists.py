"""Every list has the same flags and the same forms, and fits the terminal."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchword.api.resources import MANAGED_CLUSTERS
from watchword.cli._exit_codes import ExitCode
from watchword.cli.lists import sort_key
from watchword.cli.main import cli, run
from watchword.cli.output import OPTIONAL, render_table
from watchword.testing.builders import a_cluster

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Fleet

LISTS = (
    "clusters",
    "clusters list",
    "addon list",
    "serviceaccount list",
    "token list",
    "pull-secrets list",
    "work list",
    "clusterset list",
)
FLAGS = {"--namespace", "-n", "--all-namespaces", "-A", "--selector", "-l", "--sort-by", "--watch", "-w", "-o"}
CELL = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


def find_command(path: str) -> click.Command:
    found, context = click.Context(cli).command, click.Context(cli)
    for word in path.split():
        assert isinstance(found, click.Group)
        child = found.get_command(context, word)
        assert child is not None
        found = child
    return found


@pytest.mark.parametrize("path", LISTS)
def test_every_list_has_the_same_flags_and_forms(path: str) -> None:
    options = [each for each in find_command(path).params if isinstance(each, click.Option)]
    output = next(each for each in options if "-o" in each.opts)

    assert {name for each in options for name in each.opts} >= FLAGS
    assert isinstance(output.type, click.Choice)
    assert list(output.type.choices) == ["table", "wide", "name", "json", "yaml"]


HEADERS = ("NAME", "HEALTH", "SUBJECT", "VERSION", "NOTE")


@given(rows=st.lists(st.tuples(CELL, CELL, CELL, CELL, st.lists(CELL, max_size=20).map(" ".join)), max_size=5))
def test_a_table_fits_eighty_columns_and_cuts_no_name_state_or_note(rows: list[tuple[str, ...]]) -> None:
    shown = render_table(HEADERS, rows, width=80)

    assert max(map(len, shown.splitlines())) <= 80
    words = shown.split()
    assert all(cell in words for name, health, _, _, note in rows for cell in (name, health, *note.split()))


def test_columns_that_a_narrow_terminal_leaves_out_are_not_the_ones_that_name_something() -> None:
    assert not {"NAME", "CLUSTER", "NAMESPACE", "HOLDER", "HEALTH", "TOKEN", "NOTE"} & set(OPTIONAL)


def test_states_are_colored_and_what_a_server_says_is_not_a_control_sequence() -> None:
    shown = render_table(("NAME", "HEALTH"), [("edge\x1b[2J", "Failing"), ("lab", "Good")], color=True)

    assert re.findall(r"\x1b\[(\d+)m(\w+)", shown) == [("1", "NAME"), ("31", "Failing"), ("32", "Good")]
    assert "\x1b[2J" not in shown


def test_cells_are_sorted_as_people_count() -> None:
    assert sorted(["2h", "5m", "3d", "40s"], key=sort_key) == ["40s", "5m", "2h", "3d"]
    assert sorted(["edge-10", "edge-9", "lab"], key=sort_key) == ["edge-9", "edge-10", "lab"]


@pytest.mark.real_time
async def test_clusters_are_selected_sorted_and_printed_in_every_form(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    names = [cli_fleet.unique(f"edge-{number}") for number in (10, 9)]
    mark = names[0].rpartition("-")[2]
    for name in names:
        cluster = a_cluster(name)
        cluster["metadata"]["labels"] = {"mark": mark}
        await cli_fleet.client.create(MANAGED_CLUSTERS, cluster)
    select = ("clusters", "-l", f"mark={mark}", "--sort-by")

    by_column = await cli_fleet.run(*select, "name", "-o", "wide")
    by_path = json.loads(await cli_fleet.run(*select, ".metadata.name", "-o", "json"))

    assert [row.split()[0] for row in by_column.splitlines()] == ["NAME", *reversed(names)]
    assert [item["metadata"]["name"] for item in by_path["items"]] == [*reversed(names)]
    assert "choose from name, accepted" in await cli_fleet.run(*select, "nothing", code=ExitCode.NOT_USABLE)


@pytest.mark.real_time
async def test_clusters_are_accepted_as_arguments_and_all_or_none(cli_fleet: Fleet) -> None:
    await cli_fleet.init("--no-probe")
    name = cli_fleet.unique("edge")
    await cli_fleet.client.create(MANAGED_CLUSTERS, a_cluster(name))

    said = await cli_fleet.run("accept", name, "--skip-approve-check", "--dry-run", "--yes")

    assert said == f"cluster {name} would be accepted\n"
    assert "no cluster nowhere" in await cli_fleet.run("accept", "nowhere", code=ExitCode.NOT_FOUND)
    assert "there is no cluster nowhere" in await cli_fleet.run("clusters", "show", "nowhere", code=ExitCode.NOT_FOUND)
    assert await cli_fleet.run("deny", name) == f"cluster {name} denied\n"
    (row,) = [line.split() for line in (await cli_fleet.run("clusters")).splitlines() if name in line]
    assert row[1] == "denied"


@pytest.mark.parametrize(
    "argv",
    [
        pytest.param(["backup", "{}/nope/file"], id="backup"),
        pytest.param(["token", "create", "--output-join-command-file", "{}/nope/file"], id="join command"),
        pytest.param(["init", "--output-join-command-file", "{}/nope/file"], id="init"),
        pytest.param(
            ["serviceaccount", "kubeconfig", "a", "--cluster", "b", "--file", "{}/nope/file"], id="kubeconfig"
        ),
    ],
)
def test_no_folder_is_made_for_a_file(argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([each.format(tmp_path) for each in argv]) == ExitCode.NOT_USABLE
    assert f"the folder {tmp_path}/nope does not exist" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "nope").exists()
