"""`watchword manifests`: what an administrator applies, as plain objects."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from watchword.admin.addons import accounts_bundle
from watchword.api.cluster import validate_cluster_name
from watchword.api.meta import Manifest
from watchword.api.names import IMAGE, IMAGE_VARIABLE
from watchword.api.resources import CONFIG_MAPS, CUSTOM_RESOURCE_DEFINITIONS, SECRETS
from watchword.api.yaml import YamlError, dump, load
from watchword.cli.options import flag, many, named, option, text
from watchword.cli.output import echo
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.discovery_document import parse_endpoint
from watchword.discovery.setup import DiscoverySetup, discovery_manifests
from watchword.operator.bundles import BundleOptions, DashboardBundleOptions, dashboard_bundle, operator_bundle
from watchword.operator.installation import Installation, ValuesError, read_installation
from watchword.operator.pull_secret_manifests import RegistryAuthBundleOptions, registry_auth_bundle, signing_secret
from watchword.operator.rbac import DEFINITIONS
from watchword.pki.authority import Authority
from watchword.pki.certificates import split_bundle
from watchword.pullsecrets.settings import validate_configuration

FORMS = ("yaml", "json")
_image = option("--image", default=IMAGE, envvar=IMAGE_VARIABLE, show_default=False, help="Image to run.")
_image_over_values = text("--image", envvar=IMAGE_VARIABLE, help="Image to run; by default that of --values.")
_values = click.option(
    "--values",
    "-f",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="YAML file with values of the Helm chart.",
)
_output = option("--output", "-o", type=click.Choice(FORMS), default=FORMS[0], help="Format of the manifests.")
_namespace = option(
    "--agent-namespace",
    default="open-cluster-management-agent",
    help="Namespace of the agent; the operator gets rights only there.",
)


@click.group("manifests")
def command() -> None:
    """Print manifests to apply to a cluster, without contacting a server.

    Apply the kinds first, because kubectl refuses objects of a kind that is not established yet:

    \b
      watchword manifests crds | kubectl apply --server-side -f -
      watchword manifests crds | kubectl wait --for=condition=Established -f -
      watchword manifests hub | kubectl apply --server-side -f -
    """  # noqa: D301 - \b is the mark of click for lines that are kept


@command.command("crds")
@_output
def crds(output: str) -> None:
    """Print the kinds that the operator needs."""
    _print([(CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in DEFINITIONS], output)


@command.command("operator")
@_image
@_namespace
@_output
def operator(image: str, agent_namespace: str, output: str) -> None:
    """Print the operator with its kinds, namespaces and rights."""
    _print(operator_bundle(BundleOptions(image, agent_namespace)), output)


@command.command("hub")
@many("--hub-apiserver", "endpoints", help="URL of this hub's API server for clusters; repeatable.")
@click.option(
    "--ca-file",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="CA bundle of the hub's API server (PEM).",
)
@_values
@_image_over_values
@_output
def hub(endpoints: tuple[str, ...], ca_file: Path | None, values: Path | None, image: str, output: str) -> None:
    """Print the operator and a ClusterManager: they make a cluster a hub.

    With --hub-apiserver and --ca-file, cluster-info is among it, by which others find the hub with a token. The CA
    is in your kubeconfig:

    \b
      kubectl config view --raw --minify \\
        -o jsonpath='{.clusters[0].cluster.certificate-authority-data}' \\
        | base64 -d > hub-ca.crt
    """  # noqa: D301 - \b is the mark of click for lines that are kept
    if bool(endpoints) is not (ca_file is not None):
        raise click.UsageError("--hub-apiserver and --ca-file go together: clusters need the address and its CA")
    rows = _installation(values, {"image": image}).hub_rows()
    if ca_file is None:
        echo("note: no cluster can find the hub by a token without --hub-apiserver and --ca-file", err=True)
    else:
        info = ClusterInfo(tuple(parse_endpoint(text) for text in endpoints), split_bundle(ca_file.read_bytes()))
        rows += discovery_manifests(DiscoverySetup(info))
    _print(rows, output)


@command.command("agent")
@named("--cluster-name", default="", help="Name of the cluster on the hub; required unless --values has it.")
@text("--klusterlet-name", help="Name of the Klusterlet; klusterlet by default.")
@text("--agent-namespace", "namespace", help="Namespace of the agent; open-cluster-management-agent by default.")
@_values
@_image_over_values
@_output
def agent(values: Path | None, output: str, **flags: str) -> None:
    """Print the operator and a Klusterlet: with a Secret beside it, they join a hub.

    The Secret bootstrap-hub-kubeconfig holds a kubeconfig with a token of the hub. HOST:PORT, the token and the pin are
    those that `watchword token create --print-join-command` prints on the hub:

    \b
      watchword discover HOST:PORT --token @TOKEN_FILE \\
        --discovery-token-ca-cert-hash PIN --with-token -f bootstrap.kubeconfig
      kubectl -n open-cluster-management-agent create secret generic \\
        bootstrap-hub-kubeconfig --from-file=kubeconfig=bootstrap.kubeconfig
    """  # noqa: D301 - \b is the mark of click for lines that are kept
    installation = _installation(values, flags)
    objection = validate_cluster_name(installation.agent_names.cluster)
    if objection:
        raise click.BadParameter(objection, param_hint="--cluster-name")
    _print(installation.agent_rows(), output)


@command.command("pull-secrets")
@many("--registry", "registries", help="Host of a further registry; repeatable.")
@text("--audience", help="Audience of the tokens; by default that of the API server.")
@flag("--only-used", help="Manage only ServiceAccounts that a pod uses.")
@_values
@_image_over_values
@_output
def pull_secrets(values: Path | None, output: str, **flags: Any) -> None:
    """Print the controllers of image pull secrets, with their configuration and rights."""
    rows = _installation(values, flags).pull_secret_rows()
    (configuration,) = (obj for resource, obj in rows if resource is CONFIG_MAPS)
    objection = validate_configuration(configuration["data"])
    if objection:
        raise click.UsageError(objection)
    _print(rows, output)


@command.command("managed-serviceaccount")
@flag("--standalone", help="Deploy a separate manager, for a hub of Open Cluster Management.")
@_image
@_output
def managed_serviceaccount(standalone: bool, image: str, output: str) -> None:  # noqa: FBT001 - a flag
    """Print what managed service accounts need on a hub: kinds, policy, rights, and the entry in the list of add-ons.

    The hub serves them as soon as this is applied, and stops when it is deleted. `watchword addon enable
    managed-serviceaccount` applies the same.
    """
    _print(accounts_bundle(standalone=standalone, image=image), output)


@command.command("registry-auth")
@click.option("--service", required=True, help="Service name of the registry's token configuration.")
@click.option("--audience", required=True, help="Audience that tokens must have.")
@_image
@_output
def registry_auth(service: str, audience: str, image: str, output: str) -> None:
    """Print the token service of a registry; it signs with the key that `registry-auth-key` prints."""
    _print(registry_auth_bundle(RegistryAuthBundleOptions(service, audience, image)), output)


@command.command("registry-auth-key")
@_output
def registry_auth_key(output: str) -> None:
    """Print a new signing key of the token service, as a Secret for `kubectl create -f -`.

    The registry trusts tls.crt of the Secret watchword-registry-auth. The output holds the private key: do not store
    it. A Secret that exists stays as it is; to exchange the key, delete it first.
    """
    made = Authority.make("watchword-registry-auth", now=datetime.now(UTC))
    _print([(SECRETS, signing_secret(made.key.pem.reveal(), made.certificate.pem))], output)


@command.command("dashboard")
@many("--name", "names", help="Host name that browsers use, besides loopback; repeatable.")
@flag("--https", "secure", help="Browsers connect through an Ingress that serves TLS: mark cookies as Secure.")
@flag("--join-tokens", help="Show join tokens; grants read access to all Secrets in kube-system.")
@flag("--pull-secrets", help="Show pull secrets; grants read access to all Secrets.")
@_image
@_output
def dashboard(output: str, **flags: Any) -> None:
    """Print the web dashboard: each user signs in with a token and sees what the token may read."""
    _print(dashboard_bundle(DashboardBundleOptions(**flags)), output)


def _installation(values: Path | None, flags: Mapping[str, Any]) -> Installation:
    try:
        return read_installation(load(values.read_bytes()) if values else {}, flags)
    except (ValuesError, YamlError) as error:
        raise click.BadParameter(str(error), param_hint="--values") from error


def _print(rows: list[Manifest], form: str) -> None:
    objects = [obj for _, obj in rows]
    if form == "json":
        echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}, indent=2))
        return
    echo("---\n".join(dump(obj) for obj in objects), nl=False)
