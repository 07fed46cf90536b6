"""`watchword aws get-token`: the token of an IAM role for an EKS hub, as an exec credential plugin prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from watchword.cli.options import text
from watchword.cli.output import echo

if TYPE_CHECKING:
    from watchword.registration.aws_irsa.eks_token import EksToken

AWS_LIBRARIES = ("boto3", "botocore")


@click.command("get-token")
@click.option("--region", required=True, help="The region of the hub.")
@click.option("--cluster-name", required=True, help="The name of the hub's EKS cluster.")
@text("--role-arn", metavar="ARN", help="Role to assume; by default the caller's own identity.")
def command(region: str, cluster_name: str, role_arn: str) -> None:
    """Print a token for an EKS cluster, as `aws eks get-token` does.

    An agent runs it where the `aws` command is not installed. It finds AWS credentials as that command does, and needs
    only the extra `aws`.
    """
    import os

    import orjson

    from watchword.accounts.exec_credential import read_exec_info, token_credential

    version, _ = read_exec_info(os.environ)
    signed = _sign(region, cluster_name, role_arn)
    echo(orjson.dumps(token_credential(signed.token, signed.expires_at, version)).decode())


def _sign(region: str, cluster_name: str, role_arn: str) -> EksToken:
    from datetime import UTC, datetime

    try:
        from watchword.registration.aws_irsa.eks_token import sign_eks_token
    except ModuleNotFoundError as missing:
        if missing.name not in AWS_LIBRARIES:
            raise
        from watchword.registration.aws_irsa.errors import LibraryMissing

        raise LibraryMissing("get-token needs the AWS libraries: run pip install 'watchword[aws]'") from missing
    return sign_eks_token(region, cluster_name, role_arn, now=datetime.now(UTC))
