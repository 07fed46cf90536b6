"""`watchword agent`: the agent of a managed cluster, until it is told to stop."""

from pathlib import Path
from random import SystemRandom
from typing import Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.driver_options import driver_choice_options, driver_options, driver_settings
from watchword.cli.options import duration, option, split, text
from watchword.cli.output import echo
from watchword.cli.process_options import FeatureGates, KeyValuePairs, identity, process_options, run_process
from watchword.credentials.driver import Side
from watchword.processes.agent import AgentRuntime, agent_option_warnings, run_agent, validate_agent_options
from watchword.registration.agent.cluster_status import ClaimPolicy
from watchword.registration.agent.options import AgentOptions
from watchword.registration.catalog import CATALOG
from watchword.runtime.clock import SystemClock


@click.command("agent")
@click.option(
    "--spoke-cluster-name", "--cluster-name", "cluster_name", required=True, help="Name of this cluster on the hub."
)
@text("--agent-name", help="Name of this agent; by default the stored one.")
@option("--namespace", default="open-cluster-management-agent", help="Namespace of the agent's Secrets.")
@click.option(
    "--bootstrap-kubeconfig", type=click.Path(path_type=Path), help="Kubeconfig with which the agent registers."
)
@option("--hub-kubeconfig-secret", default="hub-kubeconfig-secret", help="Secret that stores the agent's credential.")
@click.option(
    "--hub-kubeconfig-dir", type=click.Path(path_type=Path), hidden=True, help="Ignored; accepted for compatibility."
)
@driver_choice_options(default=CATALOG.default)
@driver_options(Side.CLUSTER)
@text(
    "--spoke-external-server-urls", "urls", help="API server URLs that the ManagedCluster reports, separated by commas."
)
@text("--cluster-labels", "labels", type=KeyValuePairs(), help="Labels of the ManagedCluster.")
@text("--cluster-annotations", "annotations", type=KeyValuePairs(), help="Annotations of the ManagedCluster.")
@option(
    "--max-custom-cluster-claims",
    "most_claims",
    type=click.IntRange(0),
    default=20,
    help="Maximum number of the cluster's own claims that are reported.",
)
@text("--reserved-cluster-claim-suffixes", "claim_suffixes", help="Suffixes of claims that are always reported.")
@duration(
    "--appliedmanifestwork-eviction-grace-period",
    "eviction_grace",
    default="60m",
    help="How long applied objects are kept after the agent has lost its hub.",
)
@duration(
    "--status-sync-interval",
    "feedback_interval",
    default="30s",
    help="How often the status of applied objects is read.",
)
@text(
    "--work-namespaces",
    help="Protected namespaces, such as kube-system, that works without an executor may change, separated by commas.",
)
@text("--feature-gates", type=FeatureGates(), help="Ignored; accepted for compatibility.")
@process_options
@connection_options
def command(connection: ClusterConnection, **flags: Any) -> None:
    """Run the agent of a managed cluster.

    It joins the hub with the bootstrap kubeconfig, keeps its own credential in a Secret, renews it in time,
    and applies the work that the hub hands to it.
    """
    options = options_of(flags)
    objections = validate_agent_options(options)
    if objections:
        raise click.UsageError("; ".join(objections))
    for warning in agent_option_warnings(options):
        echo(f"warning: {warning}", err=True)
    runtime = AgentRuntime(clock=SystemClock(), random=SystemRandom())
    run_process(connection, lambda client, stop: run_agent(client, options, runtime=runtime, stop=stop))


def options_of(flags: dict[str, Any]) -> AgentOptions:
    derived = {
        "hub_secret": flags["hub_kubeconfig_secret"],
        "settings": driver_settings(flags, Side.CLUSTER),
        "external_urls": split([flags["urls"]]),
        "claims": ClaimPolicy(flags["most_claims"], split([flags["claim_suffixes"]])),
        "work_namespaces": frozenset(split([flags["work_namespaces"]])),
        "identity": identity(),
        "elect": not flags["disable_leader_election"],
    }
    named = {name: value for name, value in flags.items() if name in AgentOptions.__struct_fields__}
    return AgentOptions(**{**named, **derived})
