"""`watchword up`: a hub and managed clusters on this machine, in one process."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from watchword.cli._exit_codes import ExitCode
from watchword.cli.connection_options import cluster_names
from watchword.cli.options import (
    file_option,
    flag,
    fleet_directory_of,
    folder_option,
    many,
    option,
    parse_duration_flag,
    split,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from watchword.kube.client import Client
    from watchword.local.data_directory import FleetDirectory
    from watchword.local.fleet import UpOptions
    from watchword.local.pods import FlagParsers


@click.command("up")
@click.option(
    "--clusters", type=click.IntRange(0, 200), help="Number of managed clusters; 2 for a new fleet, else unchanged."
)
@many("--cluster-names", help="Names of the managed clusters, separated by commas, instead of a number.")
@text("--registration-auth", help="Registration driver of the clusters; csr for a new fleet, else unchanged.")
@folder_option("--data-dir", help="Data directory of the fleet.")
@flag("--ephemeral", help="Keep all state in memory; write nothing to disk.")
@flag("--audit", help="Write audit.log in the data directory of each control plane, one line per request.")
@file_option(
    "--encryption-key-file",
    help="Encrypt Secrets in each data file with the first key of this file (base64, 32 bytes, one per line).",
)
@flag("--exit", "leave", help="Exit with 0 once the fleet is healthy, for scripts.")
@option("--timeout", default="60s", help="With --exit: time limit until the fleet is healthy.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Where output is no terminal: print events and tables.")
@flag("--json", "as_json", help="Print one JSON object per event.")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    help="Port of the hub; clusters use the following ports; free ports by default.",
)
def command(**flags: Any) -> None:
    """Bring up a hub and managed clusters on this machine.

    Nothing needs to be installed: each is a Kubernetes API in this process, on a loopback port, so that
    kubectl works. The clusters join the hub as real ones do. Ctrl-C stops everything and keeps the data;
    the next start continues with it.
    """
    if flags["ephemeral"] and flags["data_dir"] is not None:
        raise click.UsageError("--ephemeral keeps nothing, so --data-dir has no meaning: leave one of them out")
    if flags["ephemeral"] and flags["encryption_key_file"] is not None:
        raise click.UsageError("--ephemeral keeps nothing to encrypt: leave --encryption-key-file out, or --ephemeral")
    names = split(flags["cluster_names"])
    if names and flags["clusters"] is not None:
        raise click.UsageError("--cluster-names says how many clusters there are: leave --clusters out")
    if "hub" in cluster_names(names or ["none"], "--cluster-names"):
        raise click.UsageError("the hub is called hub: give the cluster another name")
    patience = parse_duration_flag(flags["timeout"], "--timeout")
    if sys.stdout.isatty() and not flags["as_json"]:
        click.echo("starting…\r", nl=False)  # before a second of imports; the first picture covers it
    from watchword.local.data_directory import LayoutRequest, temporary_fleet_directory
    from watchword.local.fleet import UpOptions
    from watchword.registration.catalog import CATALOG
    from watchword.registration.driver import HasServer

    verbose = bool(flags["verbosity"] or click.get_current_context().find_root().obj)
    driver = CATALOG.find(flags["registration_auth"])
    named = driver.name if flags["registration_auth"] else ""
    needs_port = isinstance(driver, HasServer)
    options = UpOptions(
        requested=LayoutRequest(flags["clusters"], flags["port"], named, needs_port, names),
        in_memory=flags["ephemeral"],
        audit=flags["audit"],
        encryption_key_file=flags["encryption_key_file"],
        leave=flags["leave"],
        patience=patience if flags["leave"] else None,
    )
    if flags["ephemeral"]:
        with temporary_fleet_directory() as folder:
            _run(folder, options, as_json=flags["as_json"], verbose=verbose)
    else:
        _run(fleet_directory_of(flags["data_dir"]), options, as_json=flags["as_json"], verbose=verbose)


def _run(folder: FleetDirectory, options: UpOptions, *, as_json: bool, verbose: bool) -> None:
    from watchword.http.limits import raise_descriptor_limit
    from watchword.local.data_directory import discard_failed_start
    from watchword.local.output import choose_output
    from watchword.local.pods import PodLogStream
    from watchword.local.up import up
    from watchword.local.workloads import WORKLOADS
    from watchword.runtime.event_loop import run
    from watchword.runtime.logs import configure_logging

    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]  # its pods must not act with the AWS credentials of the user
    # Its pods run in this process, and their kubeconfigs come from works.
    os.environ.update(WORKLOADS.environment, AWS_EC2_METADATA_DISABLED="true")
    raise_descriptor_limit()
    output = choose_output(sys.stdout, json=as_json, verbose=verbose)

    async def main() -> None:
        stop = asyncio.Event()
        listen_for_signals(stop)
        await up(folder, options, output, flag_readers(), stop)

    # Objects made by imports are never garbage: exempt them from collection.
    gc.freeze()
    with folder.lock(), discard_failed_start(folder):
        configure_logging(stream=cast("TextIO", PodLogStream(folder.log)), json=True)
        run(main())


def flag_readers() -> FlagParsers:
    """Return the parsers of pods' arguments: those of the commands themselves."""
    from watchword.cli import agent, grpc_server, hub, pull_secrets
    from watchword.local.pods import FlagParsers

    modules: dict[str, Any] = {"hub": hub, "agent": agent, "grpc-server": grpc_server, "pull-secrets": pull_secrets}

    def read(arguments: Sequence[str]) -> Any:
        verb, *flags = arguments
        return modules[verb].options_of(modules[verb].command.make_context(verb, flags).params)

    async def serve(arguments: Sequence[str], port: int, client: Client, stop: asyncio.Event) -> None:
        from msgspec.structs import replace

        await grpc_server.serve(client, replace(read(arguments), serve=("127.0.0.1", port), health=None), stop)

    return FlagParsers(read, serve)


def listen_for_signals(stop: asyncio.Event) -> None:
    """Set the event at Ctrl-C, at SIGTERM and when the terminal closes; a second signal ends the process.

    Everything acknowledged is on disk at every moment, so an immediate end loses nothing.
    """
    import os
    import signal

    def on_signal() -> None:
        if stop.is_set():
            os._exit(ExitCode.INTERRUPTED)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    loop.add_signal_handler(signal.SIGHUP, stop.set)
