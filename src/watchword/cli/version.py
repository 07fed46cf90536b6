"""`watchword version`: the releases of this client, of a hub, and of the agents of its clusters."""

import platform
from typing import Any

import click
import orjson

from watchword import __version__
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import AGENT_VERSION_CLAIM
from watchword.api.resources import CLUSTER_MANAGERS, MANAGED_CLUSTERS
from watchword.cli.connection_options import ClusterConnection, cluster_options
from watchword.cli.options import flag
from watchword.cli.output import render_table, show_result
from watchword.kube.client import Client
from watchword.kube.errors import ConfigError, Forbidden, NotFound, Unauthorized, Unreachable
from watchword.operator.cluster_manager import CLUSTER_MANAGER

UNKNOWN = "-"


@click.command("version")
@flag("--client", "client_only", help="Print the version of this program without contacting a server.")
@cluster_options(output=True)
async def command(connection: ClusterConnection, output: str, *, client_only: bool) -> None:
    """Print the versions of this program, of the hub and of the agents.

    An agent that says nothing is of a release that does not report its version. A server that does not answer is no
    error: the version of this program is printed in any case.
    """
    document: dict[str, Any] = {"client": {"version": __version__, "python": platform.python_version()}}
    if not client_only:
        try:
            async with connection.client() as client:
                document |= await _read(client)
        except (ConfigError, Forbidden, Unauthorized, Unreachable) as error:
            document["error"] = str(error)
    show_result(document, output, lambda: describe_versions(document))


async def _read(client: Client) -> dict[str, Any]:
    server = orjson.loads(await client.read("/version")).get("gitVersion") or UNKNOWN
    try:
        manager = await client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
        clusters = (await client.list(MANAGED_CLUSTERS)).items
    except NotFound:  # the kinds of a hub are not there
        return {"server": {"kubernetes": server}}
    image = str(((manager or {}).get("spec") or {}).get("imagePullSpec") or "")
    hub = {"image": image or UNKNOWN, "version": version_of_image(image)}
    return {"server": {"kubernetes": server}, "hub": hub, "agents": [_agent(cluster) for cluster in clusters]}


def _agent(cluster: Object) -> dict[str, str]:
    status = cluster.get("status") or {}
    claims = {row.get("name"): str(row.get("value")) for row in status.get("clusterClaims") or ()}
    kubernetes = str((status.get("version") or {}).get("kubernetes") or UNKNOWN)
    version = claims.get(AGENT_VERSION_CLAIM, UNKNOWN)
    return {"cluster": cluster["metadata"]["name"], "version": version, "kubernetes": kubernetes}


def version_of_image(image: str) -> str:
    """Return the tag of an image; `-` where it has none, or a digest alone."""
    tag = image.partition("@")[0].rpartition("/")[2].partition(":")[2]
    return tag or UNKNOWN


def describe_versions(document: dict[str, Any]) -> str:
    lines = [f"Client:  {document['client']['version']} (Python {document['client']['python']})"]
    if "error" in document:
        lines.append(f"Server:  not read: {document['error']}")
    if "server" in document:
        lines.append(f"Server:  Kubernetes {document['server']['kubernetes']}")
    if "hub" in document:
        lines.append(f"Hub:     {document['hub']['version']} ({document['hub']['image']})")
    elif "server" in document:
        lines.append("Hub:     this cluster is not a hub")
    agents = document.get("agents")
    if agents:
        rows = [(row["cluster"], row["version"], row["kubernetes"]) for row in agents]
        lines += ["", render_table(("CLUSTER", "AGENT", "KUBERNETES"), rows)]
    return "\n".join(lines)
