"""`watchword aws`: the IAM roles by which EKS clusters register with an EKS hub."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from watchword.cli.aws_get_token import command as get_token
from watchword.cli.common_options import with_options
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.output import echo

if TYPE_CHECKING:
    from watchword.drivers.aws_irsa.documents import IamRole
    from watchword.drivers.aws_irsa.iam import RoleWriter

APPLIED_FORMS = ("text", "json")
FORMS = (*APPLIED_FORMS, "commands", "terraform")

_hub_arn = click.option(
    "--eks-hub-cluster-arn", required=True, metavar="ARN", help="The ARN of the EKS cluster that is the hub."
)


def _role_options(whose: str) -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option(
            "--oidc-provider",
            required=True,
            metavar="URL",
            help=f"The OIDC issuer of {whose}, with or without https://.",
        ),
        click.option("--apply", is_flag=True, help="Create or repair the role, with your own AWS credentials."),
        click.option(
            "--output",
            "-o",
            type=click.Choice(FORMS),
            default=FORMS[0],
            show_default=True,
            help="How to print the role; with --apply, the changes as text or json.",
        ),
    )


@click.group("aws")
def command() -> None:
    """Prepare AWS accounts for clusters that register by IAM.

    An EKS cluster can prove who it is by an IAM role of its own. These commands print or create the roles that the
    agents and hubs of Open Cluster Management expect.
    """


@command.command("identifier")
@click.argument("hub_account")
@click.argument("hub_name")
@click.argument("managed_account")
@click.argument("managed_name")
def identifier(hub_account: str, hub_name: str, managed_account: str, managed_name: str) -> None:
    """Print the identifier in the names of a cluster's roles, without asking any server."""
    from watchword.drivers.aws_irsa.identifier import RoleTags

    echo(RoleTags(hub_account, hub_name, managed_account, managed_name).identifier)


@command.group("prerequisites")
def prerequisites() -> None:
    """Print the IAM role that a hub or a cluster needs, or create it.

    Without --apply, no server is asked. With --apply, a role that exists is compared, and only what differs is
    written: a second run changes nothing.
    """


@prerequisites.command("hub")
@_hub_arn
@click.option("--extended", is_flag=True, help="Also allow tags of roles and access entries, which this hub needs.")
@with_options(*_role_options("the hub"))
def hub(eks_hub_cluster_arn: str, oidc_provider: str, **flags: Any) -> None:
    """Print or create the role by which a hub's controller makes the roles of accepted clusters.

    It is needed where the hub accepts clusters by itself. Its policy lets the controller attach any policy to roles
    whose names begin with ocm-hub-. Without --extended it is the policy that Open Cluster Management describes.
    """
    from watchword.drivers.aws_irsa.arn import EksClusterArn, parse_oidc_provider
    from watchword.drivers.aws_irsa.documents import identity_creator_role

    arn = EksClusterArn.parse(eks_hub_cluster_arn)
    role = identity_creator_role(arn, parse_oidc_provider(oidc_provider), extended=flags.pop("extended"))
    _print_or_apply(role, arn.region, **flags)


@prerequisites.command("cluster")
@_hub_arn
@click.option("--managed-cluster-arn", required=True, metavar="ARN", help="The ARN of the EKS cluster that joins.")
@click.option("--klusterlet-name", default="klusterlet", show_default=True, help="The name of the Klusterlet.")
@click.option(
    "--agent-namespace", default="open-cluster-management-agent", show_default=True, help="Where the agent runs."
)
@with_options(*_role_options("the cluster that joins"))
def cluster(eks_hub_cluster_arn: str, managed_cluster_arn: str, oidc_provider: str, **flags: Any) -> None:
    """Print or create the role of a cluster's agent, in the account of the cluster.

    The role may assume one role in the hub's account and has no other right.
    """
    from watchword.drivers.aws_irsa.arn import EksClusterArn, parse_oidc_provider
    from watchword.drivers.aws_irsa.documents import AgentAccounts, managed_cluster_role

    accounts = AgentAccounts(flags.pop("agent_namespace"), flags.pop("klusterlet_name"))
    hub_arn, managed_arn = EksClusterArn.parse(eks_hub_cluster_arn), EksClusterArn.parse(managed_cluster_arn)
    role = managed_cluster_role(hub_arn, managed_arn, parse_oidc_provider(oidc_provider), accounts)
    _print_or_apply(role, managed_arn.region, **flags)


@command.command("revoke")
@click.argument("cluster")
@connection_options
def revoke(cluster: str, connection: ClusterConnection) -> None:
    """Delete the IAM role of a cluster that was denied or deleted, with your own AWS credentials.

    It is needed on hubs where people create the roles (--aws-identity-mode accept). The hub takes the rights of the
    cluster first.
    """
    from watchword.runtime.event_loop import run

    deleted = run(_revoke(connection, cluster))
    for arn in deleted:
        echo(f"role {arn} is deleted")
    if not deleted:
        echo(f"cluster {cluster} has no IAM role")


async def _revoke(connection: ClusterConnection, cluster: str) -> list[str]:
    from watchword.drivers.aws_irsa.people import revoke_identities

    async with connection.client() as client:
        return await revoke_identities(client, cluster)


def _print_or_apply(role: IamRole, region: str, *, apply: bool, output: str) -> None:
    from watchword.cli.aws_output import format_changes, format_role

    if not apply:
        echo(format_role(role, output), nl=False)
        return
    if output not in APPLIED_FORMS:
        raise click.UsageError(f"--apply prints what it changed as {' or '.join(APPLIED_FORMS)}, not as {output}")
    from watchword.runtime.event_loop import run

    changes = run(_role_writer(region).apply(role))
    echo(format_changes(role, changes, output), nl=False)


def _role_writer(region: str) -> RoleWriter:
    """Return what writes roles; `LibraryMissing` where the extra is not installed."""
    from random import SystemRandom

    from watchword.drivers.aws_irsa.connection import connect
    from watchword.drivers.aws_irsa.iam import RoleWriter

    return RoleWriter(connect(region), SystemRandom())


command.add_command(get_token)
