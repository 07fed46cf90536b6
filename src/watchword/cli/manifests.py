"""`watchword manifests`: what an administrator applies, as plain objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from watchword.api.meta import Manifest

FORMS = ("yaml", "json")
_image = click.option("--image", default="watchword", show_default=True, help="The image to run.")
_output = click.option(
    "--output", "-o", type=click.Choice(FORMS), default=FORMS[0], show_default=True, help="The form."
)
_namespace = click.option(
    "--agent-namespace",
    default="open-cluster-management-agent",
    show_default=True,
    help="Where the agent runs; the operator gets rights there and nowhere else.",
)


@click.group("manifests")
def command() -> None:
    """Print what to apply to a cluster, without asking any server.

    Pipe it to `kubectl apply --server-side -f -`. Each right in it is needed, and none is handed on.
    """


@command.command("operator")
@_image
@_namespace
@_output
def operator(image: str, agent_namespace: str, output: str) -> None:
    """Print the operator with its kinds, namespaces and rights."""
    from watchword.operator.bundles import BundleOptions, operator_bundle  # noqa: PLC0415 - help must not pay for it

    _print(operator_bundle(BundleOptions(image, agent_namespace)), output)


@command.command("hub")
@_image
@_output
def hub(image: str, output: str) -> None:
    """Print the operator and a ClusterManager: they make a cluster a hub."""
    from watchword.operator.bundles import BundleOptions, hub_bundle  # noqa: PLC0415 - help must not pay for it

    _print(hub_bundle(options=BundleOptions(image, for_agent=False)), output)


@command.command("agent")
@click.option("--cluster-name", required=True, help="The name on the hub.")
@click.option("--klusterlet-name", default="klusterlet", show_default=True, help="The name of the Klusterlet.")
@_image
@_namespace
@_output
def agent(cluster_name: str, klusterlet_name: str, image: str, agent_namespace: str, output: str) -> None:
    """Print the operator and a Klusterlet: with a Secret bootstrap-hub-kubeconfig beside it, they join a hub."""
    from watchword.api.cluster import validate_cluster_name  # noqa: PLC0415 - help must not pay for it
    from watchword.api.meta import ObjectKey  # noqa: PLC0415 - same
    from watchword.api.resources import KLUSTERLETS  # noqa: PLC0415 - same
    from watchword.operator.bundles import BundleOptions, agent_bundle  # noqa: PLC0415 - same

    objection = validate_cluster_name(cluster_name)
    if objection:
        raise click.BadParameter(objection, param_hint="--cluster-name")
    spec = {"clusterName": cluster_name, "namespace": agent_namespace, "imagePullSpec": image}
    klusterlet = KLUSTERLETS.manifest(ObjectKey.cluster(klusterlet_name), spec=spec)
    _print(agent_bundle(klusterlet, BundleOptions(image, agent_namespace, for_hub=False)), output)


@command.command("pull-secrets")
@click.option("--registry", "registries", multiple=True, help="A registry besides those of OpenShift's Services.")
@click.option("--audience", default="", help="The audience of the tokens. Default: that of the API server.")
@click.option("--only-used", is_flag=True, help="Manage only ServiceAccounts that a pod uses.")
@_image
@_output
def pull_secrets(registries: tuple[str, ...], audience: str, only_used: bool, image: str, output: str) -> None:  # noqa: FBT001 - a flag
    """Print the controllers of image pull secrets with their configuration and rights."""
    from watchword.operator.pull_secret_manifests import (  # noqa: PLC0415 - help must not pay for it
        PullSecretBundleOptions,
        pull_secret_bundle,
    )

    _print(pull_secret_bundle(PullSecretBundleOptions(image, registries, audience, only_used)), output)


@command.command("registry-auth")
@click.option("--service", required=True, help="The service that the registry's configuration names.")
@click.option("--audience", required=True, help="The audience that tokens must have.")
@_image
@_output
def registry_auth(service: str, audience: str, image: str, output: str) -> None:
    """Print the token service of a registry with a new signing key.

    The registry trusts tls.crt of the Secret watchword-registry-auth. The output holds the private key: apply it, and
    do not store it.
    """
    from datetime import UTC, datetime  # noqa: PLC0415 - help must not pay for it

    from watchword.operator.pull_secret_manifests import (  # noqa: PLC0415 - same
        RegistryAuthBundleOptions,
        registry_auth_bundle,
    )
    from watchword.pki.authority import Authority  # noqa: PLC0415 - same

    made = Authority.make("watchword-registry-auth", now=datetime.now(UTC))
    options = RegistryAuthBundleOptions(service, audience, made.key.pem.reveal(), made.certificate.pem, image)
    _print(registry_auth_bundle(options), output)


def _print(rows: list[Manifest], form: str) -> None:
    objects = [obj for _, obj in rows]
    if form == "json":
        import json  # noqa: PLC0415 - help must not pay for it

        click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
        return
    from watchword.api.yaml import dump  # noqa: PLC0415 - same

    click.echo("---\n".join(dump(obj) for obj in objects), nl=False)
