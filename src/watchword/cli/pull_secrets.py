"""`watchword pull-secrets`: the controllers of image pull secrets, and a list of what they manage."""

from datetime import UTC, datetime, timedelta
from functools import partial
from random import SystemRandom
from typing import Any

import click

from watchword.api.limits import PULL_SECRET_TOKENS_PER_SECOND
from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import REGISTRY_SERVICES
from watchword.api.resources import SECRETS
from watchword.api.time import rfc3339
from watchword.cli.connection_options import ClusterConnection, connection_options
from watchword.cli.lists import Listing, ListRequest, list_options, print_list
from watchword.cli.options import flag, many, option
from watchword.cli.process_options import identity, process_options, run_process
from watchword.credentials.evidence import SignerTiming
from watchword.health.formatting import format_time_left
from watchword.kube.client import Client
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, list_pull_secrets
from watchword.pullsecrets.process import PullSecretOptions, run_pull_secrets
from watchword.runtime.clock import SystemClock

COLUMNS = ("NAMESPACE", "SERVICE ACCOUNT", "SECRET", "HEALTH", "EXPIRES IN", "RENEWS IN", "REGISTRIES")


class NamespacedName(click.ParamType["ObjectKey"]):
    """NAMESPACE/NAME."""

    name = "namespace/name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> ObjectKey:
        namespace, _, name = str(value).partition("/")
        if not namespace or not name or "/" in name:
            self.fail(f"{value!r} is not NAMESPACE/NAME", param, ctx)
        return ObjectKey(namespace, name)


@click.group("pull-secrets", invoke_without_command=True)
@option(
    "--config-map",
    type=NamespacedName(),
    default="watchword-pull-secrets/pull-secrets",
    help="ConfigMap with registries, audience and lifetime; changes take effect without a restart.",
)
@many(
    "--registry-service",
    "registry_services",
    type=NamespacedName(),
    help="Service of a registry; by default OpenShift's integrated registry.",
)
@flag("--only-used", help="Manage only ServiceAccounts that a pod uses.")
@option(
    "--requests-per-second",
    type=click.FloatRange(1),
    default=PULL_SECRET_TOKENS_PER_SECOND,
    help="Maximum number of token requests per second.",
)
@option(
    "--signer-spread",
    type=click.IntRange(0),
    default=300,
    help="Seconds over which tokens are replaced after a change of the signing key.",
)
@process_options
@connection_options
@click.pass_context
def command(ctx: click.Context, /, connection: ClusterConnection, **flags: Any) -> None:
    """Keep image pull secrets with short-lived tokens, or list them.

    Without a subcommand, this runs the controllers. They give every ServiceAccount a pull secret with a bound
    token, renew the token before it expires, and list the secret in imagePullSecrets. Any number of replicas
    may run; one works at a time.
    """
    if ctx.invoked_subcommand is None:
        options = options_of(flags)
        run = partial(run_pull_secrets, clock=SystemClock(), random=SystemRandom())
        run_process(connection, lambda client, stop: run(client, options, stop=stop))


def options_of(flags: dict[str, Any]) -> PullSecretOptions:
    own = {name: flags[name] for name in ("config_map", "only_used", "requests_per_second", "health")}
    return PullSecretOptions(
        **own,
        identity=identity(),
        registry_services=flags["registry_services"] or REGISTRY_SERVICES,
        signer_timing=SignerTiming(spread=timedelta(seconds=flags["signer_spread"])),
        elect=not flags["disable_leader_election"],
    )


@command.command("list")
@flag("--unhealthy", help="List only pull secrets that are not healthy, including legacy ones.")
@list_options("List only the pull secrets of this namespace.")
@connection_options
def list_(connection: ClusterConnection, unhealthy: bool, request: ListRequest) -> None:  # noqa: FBT001 - a flag
    """List image pull secrets: ServiceAccount, health and expiry; never a token."""

    async def read(client: Client, asked: ListRequest) -> list[PullSecretRow]:
        rows = await list_pull_secrets(client, now=datetime.now(UTC), namespace=asked.namespace, labels=asked.selector)
        well = (PullSecretHealth.HEALTHY, PullSecretHealth.NEW)
        return [row for row in rows if not (unhealthy and row.health in well)]

    listing = Listing(
        resource=SECRETS,
        columns=COLUMNS,
        read=read,
        row=_cells,
        document=_document,
        name=lambda row: f"secret/{row.key.name}",
        empty=_explain_empty(request.namespace, unhealthy=unhealthy),
    )
    print_list(connection, listing, request)


def _explain_empty(namespace: str, *, unhealthy: bool) -> str:
    where = f" in namespace {namespace}" if namespace else ""
    if unhealthy:
        return f"no pull secret{where} is unhealthy"
    return f"there are no pull secrets{where}: `watchword manifests pull-secrets` prints what runs their controllers"


def _cells(row: PullSecretRow, now: datetime) -> tuple[str, ...]:
    expires, renews = format_time_left(row.expires_at, now), format_time_left(row.renews_at, now)
    return (
        row.key.namespace,
        row.account,
        row.key.name,
        row.health.value,
        expires,
        "now" if renews == "expired" else renews,
        ",".join(row.registries) or "-",
    )


def _document(row: PullSecretRow) -> Object:
    return {
        "namespace": row.key.namespace,
        "serviceAccount": row.account,
        "secret": row.key.name,
        "health": row.health.value,
        "registries": list(row.registries),
        "issuedAt": row.issued_at and rfc3339(row.issued_at),
        "expiresAt": row.expires_at and rfc3339(row.expires_at),
        "renewsAt": row.renews_at and rfc3339(row.renews_at),
    }
