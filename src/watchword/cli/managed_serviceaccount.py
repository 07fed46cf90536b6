"""`watchword managed-serviceaccount`: either side of the add-on of managed service accounts, until it is stopped."""

import asyncio
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from watchword.accounts.agent.process import AccountsAgentOptions, run_accounts_agent
from watchword.accounts.hub.controllers import AccountsManagerOptions, run_accounts_manager
from watchword.accounts.hub.definition import accounts_addon
from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE, IMAGE, IMAGE_VARIABLE
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import flag, text
from watchword.cli.process_options import identity, process_options, read_cluster_name, run_process, run_until_stopped
from watchword.credentials.evidence import connect_with_token
from watchword.kube.connect import connect, endpoint_of, incluster_endpoint, is_in_cluster
from watchword.kube.endpoint import Endpoint
from watchword.runtime.manager import ManagerOptions


@click.command("managed-serviceaccount")
@click.option(
    "--hub-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig for the hub, from the add-on's Secret."
)
@text("--cluster-name", help="Name of the cluster; by default the content of cluster-name beside the kubeconfig.")
@text("--namespace", help="Namespace of the agent and of the ServiceAccounts.")
@text("--cluster-server", help="URL of the cluster's API server that is published with the tokens.")
@text("--image", envvar=IMAGE_VARIABLE, help="With --manager: image of the agent.")
@flag("--manager", help="Run the manager for the hub of --kubeconfig instead of the agent.")
@process_options
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the add-on of managed service accounts: its agent, or its hub side.

    The agent keeps service accounts on its cluster and reports their tokens to the hub, with the credential
    that its cluster's agent obtained for it.
    """
    if flags["manager"]:
        lease = None if flags["disable_leader_election"] else ObjectKey(HUB_NAMESPACE, f"{ADDON_NAME}-manager")
        manager = ManagerOptions(f"watchword.dev/addon-{ADDON_NAME}", identity(), lease=lease, health=flags["health"])
        options = AccountsManagerOptions(manager, accounts_addon(image=flags["image"] or IMAGE))
        run_process(connection, lambda client, stop: run_accounts_manager(client, options, stop=stop))
        return
    if flags["hub_kubeconfig"] is None or not flags["namespace"]:
        raise click.UsageError("give --hub-kubeconfig with the add-on's credential and --namespace, or --manager")
    run_until_stopped(lambda stop: _run_agent(connection, flags, stop))


async def _run_agent(connection: ClusterConnection, flags: dict[str, Any], stop: asyncio.Event) -> None:
    async with connect(flags["hub_kubeconfig"]) as hub, connection.client() as local:
        options = AccountsAgentOptions(
            flags["cluster_name"] or read_cluster_name(flags["hub_kubeconfig"]),
            flags["namespace"],
            find_endpoint(connection, flags["cluster_server"]),
            identity=identity(),
            health=flags["health"],
            connect=connect_with_token(find_endpoint(connection, "")),  # users may have another address
        )
        await run_accounts_agent(hub, local, options, stop=stop)


def find_endpoint(connection: ClusterConnection, server: str) -> Endpoint:
    """Return how the cluster is reached: as the agent does, or by another address under the same authority."""
    in_pod = connection.kubeconfig is None and not connection.context and is_in_cluster()
    endpoint = incluster_endpoint() if in_pod else endpoint_of(connection.choice().cluster)
    return replace(endpoint, server=server) if server else endpoint
