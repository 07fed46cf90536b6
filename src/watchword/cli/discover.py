"""`watchword discover`: from an address and a token, or a document, to a kubeconfig that can be trusted."""

from pathlib import Path

import click

from watchword.api.sensitive import Sensitive
from watchword.cli.discovery_options import DiscoveryPlan, discovery_options
from watchword.cli.options import NewFile, flag, option
from watchword.cli.output import echo, print_progress
from watchword.discovery.cluster_info import ClusterInfo, write_cluster_info
from watchword.kube.files import write_private_file
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig
from watchword.runtime.event_loop import run

FORMS = ("kubeconfig", "cluster-info")


@click.command("discover")
@discovery_options
@click.option("--output", "-f", type=NewFile(), help="Write to this file (0600) instead of stdout.")
@option("--form", type=click.Choice(FORMS), default=FORMS[0], help="Format of the output.")
@option("--name", default="hub", help="Name of the cluster and context in the kubeconfig.")
@flag("--with-token", help="Write the bootstrap token into the kubeconfig.")
def command(plan: DiscoveryPlan, output: Path | None, form: str, name: str, with_token: bool) -> None:  # noqa: FBT001 - a flag
    """Find and verify a cluster, and print how to connect to it.

    No secret is sent before the cluster has proved its identity: by the token's signature and the hash of its
    CA, or by the file or HTTPS server from which its cluster-info was read.
    """
    if with_token and plan.tls_token is None:
        raise click.UsageError("--with-token needs a token: give --token or --tls-bootstrap-token")
    info = run(plan.discover(print_progress))
    text = write_cluster_info(info).encode() if form == "cluster-info" else _kubeconfig(info, plan, name, with_token)
    if output is None:
        echo(text, nl=False)
    else:
        write_private_file(output, text)
        print_progress(f"wrote {output}")


def _kubeconfig(info: ClusterInfo, plan: DiscoveryPlan, name: str, with_token: bool) -> bytes:  # noqa: FBT001 - private
    token = Sensitive(plan.tls_token.reveal()) if with_token and plan.tls_token else None
    cluster = ClusterEntry(info.server, ca_data=info.ca_bundle)
    return dump_kubeconfig(Kubeconfig.single(name, cluster, UserEntry(token=token)))
