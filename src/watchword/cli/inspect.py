"""`watchword inspect`: whose a credential is, who issued it, where it lies, until when; never the credential."""

import re
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

import click

from watchword.admin.inspect import CredentialInspector
from watchword.api.meta import Object
from watchword.cli.connection_options import ClusterConnection, cluster_options, complete_clusters
from watchword.cli.options import argument
from watchword.cli.output import show_result
from watchword.runtime.clock import SystemClock


@click.group("inspect")
def command() -> None:
    """Show one credential: subject, issuer, where it is stored, next renewal.

    The credential itself is never printed.
    """


Inspect: TypeAlias = Callable[[CredentialInspector, str], Coroutine[Any, Any, Object]]


def _add(name: str, inspect: Inspect, metavar: str, summary: str) -> None:
    @command.command(name, help=summary)
    @argument("what", metavar=metavar, shell_complete=complete_clusters if name == "cluster" else None)
    @cluster_options(output=True)
    async def verb(connection: ClusterConnection, what: str, output: str) -> None:
        async with connection.client() as client:
            facts = await inspect(CredentialInspector(client, SystemClock()), what)
        show_result(facts, output, lambda: describe(facts))


_add("cluster", CredentialInspector.cluster, "CLUSTER", "Show the credential of a cluster's agent for the hub.")
_add("addon", CredentialInspector.addon, "CLUSTER/NAME", "Show the credential of an add-on for the hub.")
_add("serviceaccount", CredentialInspector.account, "NAMESPACE/NAME", "Show the token of a managed service account.")
_add(
    "secret", CredentialInspector.secret, "NAMESPACE/NAME", "Show the certificate or token in a Secret of any cluster."
)


def describe(facts: Object) -> str:
    """Return one line for each fact, and one for each certificate of a chain."""
    lines = []
    for name, value in facts.items():
        title = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()
        shown = ("\n" + " " * 14).join(map(str, value)) if isinstance(value, list) else str(value)
        lines.append(f"{title + ':':<14}{shown or '-'}")
    return "\n".join(lines)
