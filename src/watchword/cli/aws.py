"""`watchword aws`: the IAM roles by which EKS clusters register with an EKS hub."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from textwrap import indent
from typing import TYPE_CHECKING, Any

import click

from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.options import argument, flag, named, option, text, with_options
from watchword.cli.output import echo
from watchword.registration.aws_irsa.documents import IamRole

if TYPE_CHECKING:
    from watchword.registration.aws_irsa.boto import EksToken

AWS_LIBRARIES = ("boto3", "botocore")
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
        flag("--apply", help="Create or repair the role with your AWS credentials."),
        option(
            "--output",
            "-o",
            type=click.Choice(FORMS),
            default=FORMS[0],
            help="Output format of the role; with --apply, of the changes (text or json).",
        ),
    )


@click.group("aws")
def command() -> None:
    """Prepare AWS accounts for clusters that register by IAM.

    An EKS cluster can prove who it is by an IAM role of its own. These commands print or create the roles that the
    agents and hubs of Open Cluster Management expect.
    """


@command.command("identifier")
@argument("hub_account")
@argument("hub_name")
@argument("managed_account")
@argument("managed_name")
def identifier(hub_account: str, hub_name: str, managed_account: str, managed_name: str) -> None:
    """Print the identifier in the names of a cluster's roles, without asking any server."""
    from watchword.registration.aws_irsa.documents import RoleTags

    echo(RoleTags(hub_account, hub_name, managed_account, managed_name).identifier)


@command.group("prerequisites")
def prerequisites() -> None:
    """Print the IAM role that a hub or a cluster needs, or create it.

    Without --apply, no server is asked. With --apply, a role that exists is compared, and only what differs is
    written: a second run changes nothing.
    """


@prerequisites.command("hub")
@_hub_arn
@click.option(
    "--extended/--design-only",
    default=True,
    help="Include the tag and access entry permissions that this hub requires, or only those of the design.",
)
@with_options(*_role_options("the hub"))
def hub(eks_hub_cluster_arn: str, oidc_provider: str, **flags: Any) -> None:
    """Print or create the role of a hub's controllers, which create the roles of accepted clusters.

    It is needed where the hub accepts clusters by itself. Its policy lets the controller attach any policy to roles
    whose names begin with ocm-hub-. With --design-only it is the policy of Open Cluster Management's design, with which
    this hub cannot accept clusters.
    """
    from watchword.registration.aws_irsa.documents import EksClusterArn, identity_creator_role, parse_oidc_provider

    arn = EksClusterArn.parse(eks_hub_cluster_arn)
    role = identity_creator_role(arn, parse_oidc_provider(oidc_provider), extended=flags.pop("extended"))
    _print_or_apply(role, arn.region, **flags)


@prerequisites.command("cluster")
@_hub_arn
@click.option("--managed-cluster-arn", required=True, metavar="ARN", help="The ARN of the EKS cluster that joins.")
@option("--klusterlet-name", default="klusterlet", help="The name of the Klusterlet.")
@option("--agent-namespace", default="open-cluster-management-agent", help="Namespace of the agent.")
@with_options(*_role_options("the cluster that joins"))
def cluster(eks_hub_cluster_arn: str, managed_cluster_arn: str, oidc_provider: str, **flags: Any) -> None:
    """Print or create the role of a cluster's agent, in the account of the cluster.

    The role may assume one role in the hub's account and has no other right.
    """
    from watchword.registration.aws_irsa.documents import (
        AgentAccounts,
        EksClusterArn,
        managed_cluster_role,
        parse_oidc_provider,
    )

    accounts = AgentAccounts(flags.pop("agent_namespace"), flags.pop("klusterlet_name"))
    hub_arn, managed_arn = EksClusterArn.parse(eks_hub_cluster_arn), EksClusterArn.parse(managed_cluster_arn)
    role = managed_cluster_role(hub_arn, managed_arn, parse_oidc_provider(oidc_provider), accounts)
    _print_or_apply(role, managed_arn.region, **flags)


@command.command("revoke")
@argument("cluster")
@connection_options
async def revoke(cluster: str, connection: ClusterConnection) -> None:
    """Delete the IAM role of a cluster that was denied or deleted, with your own AWS credentials.

    It is needed on hubs where people create the roles (--aws-identity-mode accept). The hub takes the rights of the
    cluster first.
    """
    from watchword.registration.aws_irsa.hub import revoke_identities

    async with connection.client() as client:
        deleted = await revoke_identities(client, cluster)
    for arn in deleted:
        echo(f"role {arn} is deleted")
    if not deleted:
        echo(f"cluster {cluster} has no IAM role")


def _print_or_apply(role: IamRole, region: str, *, apply: bool, output: str) -> None:
    if not apply:
        echo(OUTPUT_FORMS[output](role), nl=False)
        return
    if output not in APPLIED_FORMS:
        raise click.UsageError(f"--apply prints what it changed as {' or '.join(APPLIED_FORMS)}, not as {output}")
    from random import SystemRandom

    from watchword.registration.aws_irsa.aws_api import connect
    from watchword.registration.aws_irsa.iam import RoleWriter
    from watchword.runtime.event_loop import run

    changes = run(RoleWriter(connect(region), SystemRandom()).apply(role))
    echo(format_changes(role, changes, output), nl=False)


TERRAFORM = """\
resource "aws_iam_role" "{label}" {{
  name               = "{name}"
  assume_role_policy = <<-POLICY
{trust}
  POLICY
{tags}}}

resource "aws_iam_role_policy" "{label}" {{
  name   = "{name}"
  role   = aws_iam_role.{label}.id
  policy = <<-POLICY
{access}
  POLICY
}}
"""


def format_changes(role: IamRole, changes: Sequence[str], form: str) -> str:
    if form == "json":
        return _dump({"roleArn": role.arn, "changes": list(changes)})
    return f"role {role.arn}: {', '.join(changes) or 'unchanged'}\n"


def _format_text(role: IamRole) -> str:
    tags = "".join(f"{key}: {value}\n" for key, value in role.tags.items())
    parts = {
        "Role": f"{role.arn}\n",
        "Access policy": role.access_policy,
        "Trust policy": role.trust_policy,
        "Tags": tags,
    }
    return "\n".join(f"{title}:\n{text}" for title, text in parts.items() if text)


def _format_json(role: IamRole) -> str:
    return _dump(
        {
            "roleArn": role.arn,
            "roleName": role.name,
            "policyName": role.name,
            "accessPolicy": role.access,
            "trustPolicy": role.trust,
            "tags": dict(role.tags),
        }
    )


def _format_commands(role: IamRole) -> str:
    tags = ["--tags", *(f"Key={key},Value={value}" for key, value in role.tags.items())] if role.tags else []
    create = ["create-role", "--role-name", role.name]
    create += ["--assume-role-policy-document", role.trust_policy.strip(), *tags]
    wait = ["wait", "role-exists", "--role-name", role.name]
    put = ["put-role-policy", "--role-name", role.name, "--policy-name", role.name]
    put += ["--policy-document", role.access_policy.strip()]
    return "".join(shlex.join(["aws", "iam", *command]) + "\n" for command in (create, wait, put))


def _format_terraform(role: IamRole) -> str:
    """Return the resources; no value can hold a sequence that Terraform would interpolate."""
    label = role.name if role.name[0].isalpha() else f"_{role.name}"
    trust, access = (indent(policy.strip(), "    ") for policy in (role.trust_policy, role.access_policy))
    width = max(map(len, role.tags), default=0)
    rows = "".join(f'    {key:<{width}} = "{value}"\n' for key, value in role.tags.items())
    tags = f"  tags = {{\n{rows}  }}\n" if rows else ""
    return TERRAFORM.format(label=label, name=role.name, trust=trust, access=access, tags=tags)


def _dump(document: object) -> str:
    return json.dumps(document, indent=2) + "\n"


OUTPUT_FORMS: Mapping[str, Callable[[IamRole], str]] = {
    "text": _format_text,
    "json": _format_json,
    "commands": _format_commands,
    "terraform": _format_terraform,
}


@command.command("get-token")
@click.option("--region", required=True, help="The region of the hub.")
@named("--cluster-name", required=True, help="The name of the hub's EKS cluster.")
@text("--role-arn", metavar="ARN", help="Role to assume; by default the caller's own identity.")
def get_token(region: str, cluster_name: str, role_arn: str) -> None:
    """Print a token for an EKS cluster, as `aws eks get-token` does.

    An agent runs it where the `aws` command is not installed. It finds AWS credentials as that command does, and needs
    only the extra `aws`.
    """
    import os

    import orjson

    from watchword.accounts.exec_credential import exec_credential, read_exec_info

    version, _ = read_exec_info(os.environ)
    signed = _sign(region, cluster_name, role_arn)
    echo(orjson.dumps(exec_credential(signed.token, signed.expires_at, version)).decode())


def _sign(region: str, cluster_name: str, role_arn: str) -> EksToken:
    from datetime import UTC, datetime

    try:
        from watchword.registration.aws_irsa.boto import sign_eks_token
    except ModuleNotFoundError as missing:
        if missing.name not in AWS_LIBRARIES:
            raise
        from watchword.registration.aws_irsa.errors import LibraryMissing

        raise LibraryMissing("get-token needs the AWS libraries: run pip install 'watchword[aws]'") from missing
    return sign_eks_token(region, cluster_name, role_arn, now=datetime.now(UTC))
