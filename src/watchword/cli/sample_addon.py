"""`watchword sample-addon`: the sample add-on, either side of it, until it is stopped."""

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import click

from watchword.addons.hub.definition_controllers import run_addon
from watchword.addons.sample.agent import SampleAgent
from watchword.addons.sample.hub import SAMPLE
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag, option, text
from watchword.cli.process_options import read_cluster_name, run_process, run_until_stopped
from watchword.kube.connect import connect
from watchword.runtime.clock import SystemClock


@click.command("sample-addon")
@click.option(
    "--hub-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig for the hub, from the add-on's Secret."
)
@text("--cluster-name", help="Name of the cluster; by default the content of cluster-name beside the kubeconfig.")
@text("--lease-namespace", help="Namespace of the health lease on the managed cluster.")
@option("--every", type=click.FloatRange(min=0.05), default=30.0, help="Seconds between two updates.")
@flag("--manager", help="Run the manager for the hub of --kubeconfig instead of the agent.")
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the sample add-on: its agent, or its hub side.

    The agent keeps a report in its cluster's namespace on the hub up to date, with the credential that its
    cluster's agent obtained for it.
    """
    if flags["manager"]:
        run_process(connection, lambda client, stop: run_addon(client, SAMPLE, stop=stop))
        return
    if flags["hub_kubeconfig"] is None:
        raise click.UsageError("give --hub-kubeconfig with the add-on's credential, or --manager")
    run_until_stopped(lambda stop: _run_agent(connection, flags, stop))


async def _run_agent(connection: ClusterConnection, flags: dict[str, Any], stop: asyncio.Event) -> None:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(connect(flags["hub_kubeconfig"]))
        local = await stack.enter_async_context(connection.client()) if flags["lease_namespace"] else None
        name = flags["cluster_name"] or read_cluster_name(flags["hub_kubeconfig"])
        agent = SampleAgent(hub, name, SystemClock(), local, flags["lease_namespace"])
        await agent.run(timedelta(seconds=flags["every"]), stop)
