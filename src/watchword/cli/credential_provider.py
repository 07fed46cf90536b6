"""`watchword credential-provider`: answers the kubelet, and prints the kubelet's configuration."""

import sys

import click

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.cli.options import many, option
from watchword.cli.output import echo


@click.group("credential-provider", invoke_without_command=True)
@many("--image", "images", help="Give the token only to registries of these images, as in matchImages.")
@click.pass_context
def command(context: click.Context, images: tuple[str, ...]) -> None:
    """Run as the kubelet's credential provider, with the pod's own token.

    Without a subcommand, this reads a CredentialProviderRequest from standard input and prints the response, as the
    kubelet asks for it. The registry needs `watchword registry-auth`; no Secret is needed.
    """
    if context.invoked_subcommand is not None:
        return
    from datetime import UTC, datetime

    from watchword.pullsecrets.credential_provider import answer_request

    request = sys.stdin.buffer.read(MAX_DOCUMENT_BYTES)
    echo(answer_request(request, images=images, now=datetime.now(UTC)))


@command.command("config")
@many("--image", "images", required=True, help="Images of the registry, as in matchImages.")
@click.option("--audience", required=True, help="The audience that registry-auth expects.")
@option(
    "--name",
    default="watchword-credential-provider",
    help="File name of the program in the kubelet's --image-credential-provider-bin-dir.",
)
def config(images: tuple[str, ...], audience: str, name: str) -> None:
    """Print the CredentialProviderConfig of the kubelet, for Kubernetes 1.34 and newer."""
    from watchword.api.yaml import dump
    from watchword.pullsecrets.credential_provider import render_provider_configuration

    echo(dump(render_provider_configuration(images, audience, name)), nl=False)
