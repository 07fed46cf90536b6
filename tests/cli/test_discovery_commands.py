"""`token` and `discover` against a control plane."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.helpers.discoverable_hub import DiscoverableHub, a_discoverable_hub

from watchword.api import yaml
from watchword.api.bootstrap import CLUSTER_INFO
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.cli._exit_codes import ExitCode
from watchword.cli.main import run
from watchword.discovery.setup import FIELD_MANAGER, DiscoverySetup, discovery_manifests
from watchword.discovery.token_secret import TokenRecord, TokenStore, TokenUsage, read_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.kubeconfig_files import read_kubeconfig
from watchword.runtime.manifests import apply_manifests
from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(120), pytest.mark.usefixtures("logs_in_file")]
Output = pytest.CaptureFixture[str]


@pytest.fixture
async def hub(plane: Plane) -> AsyncIterator[DiscoverableHub]:
    async with a_discoverable_hub(plane) as found:
        yield found


async def watchword(hub: DiscoverableHub, *argv: str, code: int = 0) -> None:
    """Run a command as the hub's administrator."""
    kubeconfig = ["--kubeconfig", str(hub.plane.kubeconfig)] if argv[0] == "token" else []
    assert await asyncio.to_thread(run, [*argv, *kubeconfig]) == code


async def test_a_created_token_is_listed_without_its_secret_and_deleted(hub: DiscoverableHub, capsys: Output) -> None:
    await watchword(hub, "token", "create", "--description", "for a test", "--for-cluster", "edge-*")
    token = BootstrapToken.parse(capsys.readouterr().out.strip())
    await watchword(hub, "token", "list")
    listed = capsys.readouterr().out
    await watchword(hub, "token", "list", "-o", "json", "--show-secret")
    document = json.loads(capsys.readouterr().out)
    await watchword(hub, "token", "delete", token.reveal())
    await watchword(hub, "token", "delete", token.id, code=7)
    await watchword(hub, "token", "delete", token.id, "--ignore-not-found")
    assert f"{token.id}.***" in listed
    assert token.secret.reveal() not in listed
    assert "for a test" in listed
    assert (document["token"], document["allowedClusters"]) == (token.reveal(), ["edge-*"])
    left = datetime.fromisoformat(document["expires"]) - datetime.now(UTC)
    assert timedelta(hours=23) < left <= timedelta(hours=24)


async def test_given_token_is_stored_with_all_its_options(hub: DiscoverableHub, capsys: Output) -> None:
    token = BootstrapToken.generate()
    flags = ["--usages", "authentication", "--ttl", "2h", "--description", "of my own"]
    groups = "system:bootstrappers:edge,system:bootstrappers:lab"
    await watchword(hub, "token", "create", token.reveal(), *flags, "--groups", groups, "-o", "yaml")
    printed = yaml.load(capsys.readouterr().out)

    key = ObjectKey("kube-system", f"bootstrap-token-{token.id}")
    stored = read_token_secret(await hub.plane.client().get(SECRETS, key))

    assert isinstance(stored, TokenRecord)
    assert (stored.token, stored.usages) == (token, (TokenUsage.AUTHENTICATION,))
    assert (stored.description, stored.groups) == ("of my own", tuple(groups.split(",")))
    assert stored.expires is not None
    assert timedelta(minutes=119) < stored.expires - datetime.now(UTC) <= timedelta(hours=2)
    assert (printed["token"], printed["groups"]) == (token.reveal(), groups.split(","))


async def test_a_signing_only_token_needs_no_group(hub: DiscoverableHub, capsys: Output) -> None:
    await watchword(hub, "token", "create", "--usages", "signing", "--ttl", "0", "-o", "json")
    made = json.loads(capsys.readouterr().out)
    assert (made["usages"], made.get("groups"), made.get("expires")) == (["signing"], None, None)


async def test_join_command_in_a_pipe_holds_no_token_unless_asked_for(
    hub: DiscoverableHub, capsys: Output, tmp_path: Path
) -> None:
    token, path = BootstrapToken.generate(), tmp_path / "join"
    async with hub.controllers():
        await watchword(hub, "token", "create", token.reveal(), "--print-join-command")
        shown = capsys.readouterr()
        assert "--token @TOKEN_FILE" in shown.out
        assert "--output-join-command-file" in shown.err
        assert token.secret.reveal() not in shown.out + shown.err

        await watchword(hub, "token", "create", "--print-join-command", "--output-join-command-file", str(path))
        assert "watchword join" not in capsys.readouterr().out
    assert "@TOKEN_FILE" not in path.read_text()
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.planes("embedded")  # others publish cluster-info on the real one
async def test_no_token_is_made_where_no_cluster_could_join_by_it(hub: DiscoverableHub, capsys: Output) -> None:
    await hub.plane.client().delete(CONFIG_MAPS, CLUSTER_INFO)

    await watchword(hub, "token", "create", "--print-join-command", code=4)

    assert "publishes no usable cluster-info" in " ".join(capsys.readouterr().err.split())
    assert await TokenStore(hub.plane.client()).list() == ([], [])
    await apply_manifests(hub.plane.client(), discovery_manifests(DiscoverySetup(hub.info)), manager=FIELD_MANAGER)


async def test_interrupted_command_has_named_the_token_that_it_made(hub: DiscoverableHub) -> None:
    argv = ("token", "create", "--print-join-command", "--kubeconfig", str(hub.plane.kubeconfig))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "watchword", *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = (await process.stderr.readline()).decode()  # no controller signs: the command goes on waiting
    process.send_signal(signal.SIGINT)
    await process.communicate()

    (made,), _ = await TokenStore(hub.plane.client()).list()
    assert said.startswith(f"warning: keep token {made.token.id} secret")
    assert process.returncode == ExitCode.INTERRUPTED


async def test_the_printed_command_discovers_the_hub(hub: DiscoverableHub, capsys: Output, tmp_path: Path) -> None:
    async with hub.controllers():
        await watchword(hub, "token", "create", "--print-join-command", "--show-token")
        program, verb, *arguments = capsys.readouterr().out.split()
        assert (program, verb) == ("watchword", "join")
        await watchword(hub, "discover", *arguments, "-f", str(tmp_path / "config"), "--with-token")
    written = read_kubeconfig(tmp_path / "config").choose()
    assert (written.cluster.server, written.cluster.ca_data) == (hub.plane.server, hub.info.ca_bundle)
    assert written.user.token is not None
    assert (tmp_path / "config").stat().st_mode & 0o777 == 0o600


async def test_a_wrong_pin_stops_discovery_with_one_sentence(hub: DiscoverableHub, capsys: Output) -> None:
    token = await hub.has_token()
    address, pin = hub.plane.server.removeprefix("https://"), "sha256:" + "0" * 64
    async with hub.controllers():
        await hub.signed_for(token)
        arguments = ("--token", token.reveal(), "--discovery-token-ca-cert-hash", pin)
        await watchword(hub, "discover", address, *arguments, code=4)
    shown = capsys.readouterr()
    assert "clusters:" not in shown.out
    assert "pinned" in shown.err
    assert token.secret.reveal() not in shown.err


async def test_a_discovery_file_leads_to_the_hub_and_nothing_is_changed_by_a_dry_run(
    hub: DiscoverableHub, capsys: Output, tmp_path: Path
) -> None:
    token = await hub.has_token()
    await watchword(hub, "token", "create", "--dry-run")
    await watchword(hub, "token", "delete", token.id, "--dry-run")
    capsys.readouterr()
    await watchword(hub, "token", "list")
    assert len(capsys.readouterr().out.splitlines()) == 2
    path = tmp_path / "hub.yaml"
    async with hub.controllers():
        await hub.signed_for(token)
        found = ("--token", token.reveal(), "--discovery-token-ca-cert-hash", str(hub.info.pins[0]))
        address = hub.plane.server.removeprefix("https://")
        await watchword(hub, "discover", address, *found, "--form", "cluster-info", "-f", str(path))
    await watchword(hub, "discover", "--discovery-file", str(path))
    assert hub.plane.server in capsys.readouterr().out
