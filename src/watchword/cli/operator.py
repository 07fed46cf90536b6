"""`watchword operator`: reconciles Klusterlet and ClusterManager, until it is stopped."""

from random import SystemRandom
from typing import Any

import click

from watchword.api.names import IMAGE_VARIABLE
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import option, text
from watchword.cli.process_options import identity, process_options, run_process
from watchword.operator.process import OperatorOptions, run_operator
from watchword.runtime.clock import SystemClock


@click.command("operator")
@option("--namespace", default="open-cluster-management", help="Namespace of the operator's leader election lease.")
@text("--image", envvar=IMAGE_VARIABLE, help="Image to deploy when the resource names none; by default the operator's.")
@click.option(
    "--install/--no-install", default=True, help="Apply the CustomResourceDefinitions that the operator needs."
)
@process_options
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the operator that deploys agents and hubs.

    A Klusterlet becomes the agent of this cluster, a ClusterManager the controllers of a hub. Any number of
    replicas may run; one works at a time.
    """
    elect = not flags.pop("disable_leader_election")
    options = OperatorOptions(identity=identity(), elect=elect, **flags)
    clock, random = SystemClock(), SystemRandom()
    run_process(connection, lambda client, stop: run_operator(client, options, clock=clock, random=random, stop=stop))
