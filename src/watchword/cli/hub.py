"""`watchword hub`: the controllers of a hub, until they are stopped."""

from functools import partial
from random import SystemRandom
from typing import Any

import click

from watchword.accounts.hub.controllers import AccountsService
from watchword.accounts.hub.definition import accounts_addon
from watchword.api.accounts import ACCOUNTS_GATE, ADDON_NAME
from watchword.api.limits import LEFT_CLUSTER_RETENTION
from watchword.api.names import IMAGE, IMAGE_VARIABLE
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.driver_options import driver_options, driver_settings
from watchword.cli.options import duration, many, option, split, text
from watchword.cli.process_options import FeatureGates, identity, process_options, run_process
from watchword.credentials.driver import AUTO_APPROVAL, Side
from watchword.processes.hub import HubOptions, run_hub
from watchword.processes.hub import addon_controllers as hub_addon_controllers
from watchword.registration.catalog import CATALOG
from watchword.registration.hub.installation import EXECUTOR_GATE
from watchword.runtime.clock import SystemClock


@click.command("hub")
@option("--namespace", default="open-cluster-management-hub", help="Namespace of the hub's leader election lease.")
@option(
    "--enabled-registration-drivers",
    "drivers",
    default=CATALOG.default,
    help="Registration drivers to enable, separated by commas.",
)
@text("--feature-gates", type=FeatureGates(), help=f"Feature gates, for example {AUTO_APPROVAL}=true.")
@driver_options(Side.HUB)
@many(
    "--signing-namespaces", help="Further namespaces whose signing CAs add-on templates may name, separated by commas."
)
@duration(
    "--left-cluster-retention",
    default=LEFT_CLUSTER_RETENTION,
    help="How long clusters that left by `unjoin` are kept; reported on the ManagedCluster.",
)
@option(
    "--agent-image",
    default=IMAGE,
    envvar=IMAGE_VARIABLE,
    show_default=False,
    help="Image of the agents of built-in add-ons.",
)
@click.option(
    "--install/--no-install",
    default=True,
    help="Apply the CustomResourceDefinitions and roles that the controllers need.",
)
@process_options
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the controllers of a hub.

    They accept and remove clusters, approve their certificates, maintain their rights, and sign cluster-info. Any
    number of replicas may run; one works at a time.
    """
    options = options_of(flags)
    run = partial(run_hub, clock=SystemClock(), random=SystemRandom(), extensions=[hub_addon_controllers])
    run_process(connection, lambda client, stop: run(client, options, stop=stop))


def options_of(flags: dict[str, Any]) -> HubOptions:
    gates = flags["feature_gates"]
    accounts = AccountsService(SystemRandom(), installs=gates.get(ACCOUNTS_GATE, False))
    return HubOptions(
        identity=identity(),
        drivers=split([flags["drivers"]]),
        settings=driver_settings(flags, Side.HUB),
        auto_approval=gates.get(AUTO_APPROVAL, False),
        demands_executor=gates.get(EXECUTOR_GATE, False),
        signing_namespaces=frozenset(split(flags["signing_namespaces"])),
        left_cluster_retention=flags["left_cluster_retention"],
        install=flags["install"],
        elect=not flags["disable_leader_election"],
        health=flags["health"],
        addons=(accounts_addon(image=flags["agent_image"]),),
        services={ADDON_NAME: accounts.run},
    )
