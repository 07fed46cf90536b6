"""`watchword token`: the bootstrap tokens of a cluster."""

import shlex
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import click
from msgspec.structs import replace

from watchword.admin.errors import NotFoundOnHub
from watchword.admin.init import await_signature, read_join_flags, require_joinable_hub
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP, NODE_GROUP, TOKEN_SECRET_NAMESPACE, token_secret_key
from watchword.api.limits import BOOTSTRAP_TOKEN_TTL
from watchword.api.resources import SECRETS
from watchword.api.time import rfc3339
from watchword.cli.connection_options import ClusterConnection, cluster_options, complete_tokens, connection_options
from watchword.cli.lists import Listing, ListRequest, list_options, print_list
from watchword.cli.options import JOIN_COMMAND_OPTIONS, argument, duration, flag, many, option, text, with_options
from watchword.cli.output import echo, join_command_file, print_progress, show_result
from watchword.cli.secret_input import SecretReader
from watchword.discovery import token_secret
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.errors import BootstrapTokenRefused
from watchword.discovery.tokens import BootstrapToken, BootstrapTokenLimits, parse_token_id
from watchword.kube.client import Client

COLUMNS = ("TOKEN", "TTL", "EXPIRES", "USAGES", "DESCRIPTION", "EXTRA GROUPS", "CLUSTERS", "MAX USES")
API_VERSION = "output.kubeadm.k8s.io/v1alpha3"  # scripts that read kubeadm's tokens read ours
NONE = "<none>"
ANY = "<any>"


def token_row(record: token_secret.TokenRecord, now: datetime, *, secrets: bool) -> tuple[str, ...]:
    return (
        record.token.reveal() if secrets else str(record.token),
        "<forever>" if record.expires is None else format_duration_left(record.expires - now),
        "<never>" if record.expires is None else rfc3339(record.expires),
        ",".join(record.usages) or NONE,
        record.description or NONE,
        ",".join(record.groups) or NONE,
        ",".join(record.limits.patterns) or ANY,
        ANY if record.limits.maximum_uses is None else str(record.limits.maximum_uses),
    )


def format_duration_left(left: timedelta) -> str:
    seconds = int(left.total_seconds())
    if seconds <= 0:
        return "<expired>"
    if seconds < 120:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 10:
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < 180:
        return f"{minutes}m"
    hours = minutes // 60
    return f"{hours}h" if hours < 48 else f"{hours // 24}d"


def token_document(record: token_secret.TokenRecord, *, secrets: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "kind": "BootstrapToken",
        "apiVersion": API_VERSION,
        "token": record.token.reveal() if secrets else str(record.token),
        "description": record.description,
        "expires": "" if record.expires is None else rfc3339(record.expires),
        "usages": list(record.usages),
        "groups": list(record.groups),
        "allowedClusters": list(record.limits.patterns),
        "maxUses": record.limits.maximum_uses,
    }
    return {name: value for name, value in document.items() if value not in ("", [], None)}


@click.group("token")
def command() -> None:
    """Create, list and delete bootstrap tokens.

    A holder of a token that authenticates can claim any cluster name that is not taken: give it a short lifetime,
    bind it to a name, delete it after use.
    """


@command.command("generate")
def generate() -> None:
    """Print a random token, without asking any server."""
    echo(BootstrapToken.generate().reveal())


@command.command("create")
@argument("token", default="")
@option("--usages", default="signing,authentication", help="Usages of the token.")
@duration("--ttl", default=BOOTSTRAP_TOKEN_TTL, help="Lifetime of the token; 0 for no expiry.")
@text("--description", help="Description of the token.")
@option("--groups", default=MANAGED_CLUSTER_GROUP, help="Groups of the token's user, separated by commas.")
@many(
    "--for-cluster", "patterns", help="Cluster name that the token may register; * matches any characters; repeatable."
)
@click.option(
    "--max-uses",
    type=click.IntRange(1),
    help="Maximum number of clusters that the token may register; unlimited by default.",
)
@flag("--force-weak-token", help="Accept a token that can be guessed easily.")
@flag("--print-join-command", help="Print the join command instead of the token.")
@with_options(*JOIN_COMMAND_OPTIONS)
@cluster_options(dry_run=True, output=True)
async def create(connection: ClusterConnection, token: str, output: str, **options: Any) -> None:
    """Create a token on the server and print it.

    TOKEN is an id.secret of your own, @FILE or - for standard input; without it, one is generated.
    """
    given = SecretReader().read(token) if token else ""
    record = _record(token_secret.choose_token(given, force=options["force_weak_token"]), options)
    joins, real = options["print_join_command"] or options["command_file"], not options["dry_run"]
    async with connection.client() as client:
        info = await require_joinable_hub(client, record) if joins else None
        flags = next(iter((await read_join_flags(client)).values()), ()) if joins else ()
        await token_secret.TokenStore(client).create(record, dry_run=not real)
        print_progress(describe_power(record))  # before anything that may fail or be interrupted: the token exists
        if joins and real:
            await await_signature(client, record.token.id)
    if info is not None:
        _show_join_command(info, record, flags, options)
        return
    shown = record.token.reveal() if real else str(record.token)  # a token that was not made opens nothing
    show_result(token_document(record, secrets=real), output, lambda: shown)


@command.command("list")
@flag("--show-secret", help="Print the secrets of the tokens.")
@list_options()
@connection_options
def list_(connection: ClusterConnection, show_secret: bool, request: ListRequest) -> None:  # noqa: FBT001 - a flag
    """List the tokens: id, time left, expiration, usages, description, groups.

    Secrets are hidden by default: a list is often shown, logged or pasted.
    """
    reported: set[str] = set()

    async def read(client: Client, asked: ListRequest) -> list[token_secret.TokenRecord]:
        records, ignored = await token_secret.TokenStore(client).list(labels=asked.selector)
        for secret in ignored:
            if secret.name not in reported:
                reported.add(secret.name)
                echo(f"ignored Secret kube-system/{secret.name}: {secret.why}", err=True)
        return records

    listing = Listing(
        resource=SECRETS,
        columns=COLUMNS,
        read=read,
        row=lambda record, now: token_row(record, now, secrets=show_secret),
        document=lambda record: token_document(record, secrets=show_secret),
        name=lambda record: f"secret/{token_secret_key(record.token.id).name}",
        separate=True,
    )
    print_list(connection, listing, replace(request, namespace=TOKEN_SECRET_NAMESPACE))


@command.command("delete")
@argument("tokens", nargs=-1, required=True, metavar="TOKEN-ID...", shell_complete=complete_tokens)
@flag("--ignore-not-found", help="Do not fail when a token does not exist.")
@cluster_options(dry_run="Check that the tokens exist without deleting them.")
async def delete(
    connection: ClusterConnection, tokens: tuple[str, ...], *, ignore_not_found: bool, dry_run: bool
) -> None:
    """Delete tokens by id, or by the whole token (@FILE or - also work)."""
    reader = SecretReader()
    ids = [parse_token_id(reader.read(text)) for text in tokens]
    async with connection.client() as client:
        for token_id in ids:
            try:
                await token_secret.TokenStore(client).delete(token_id, dry_run=dry_run)
            except BootstrapTokenRefused as refusal:
                if not ignore_not_found:
                    raise NotFoundOnHub(str(refusal)) from refusal
            else:
                echo(f'bootstrap token "{token_id}" deleted{" (dry run)" if dry_run else ""}')


def describe_power(record: token_secret.TokenRecord) -> str:
    """Return the warning that is printed with a new token: what a holder of it can do, and until when."""
    ends = "until it is deleted" if record.expires is None else f"until {rfc3339(record.expires)}"
    power = (
        "any holder can request to join this hub"
        if record.usages == token_secret.BOTH_USAGES
        else "any holder can use it"
    )
    nodes = ", and get node certificates without approval" if NODE_GROUP in record.groups else ""
    return f"warning: keep token {record.token.id} secret: {ends} {power}{nodes}"


def _record(token: BootstrapToken, options: dict[str, Any]) -> token_secret.TokenRecord:
    usages = [_usage(part) for part in _parts(options["usages"])]
    ttl = options["ttl"]
    groups = _parts(options["groups"])
    if token_secret.TokenUsage.AUTHENTICATION not in usages and options["groups"] == MANAGED_CLUSTER_GROUP:
        groups = []  # the default group is for tokens that authenticate
    return token_secret.TokenRecord(
        token,
        usages=tuple(sorted(set(usages))),
        expires=datetime.now(UTC) + ttl if ttl > timedelta(0) else None,
        description=options["description"],
        groups=tuple(groups),
        limits=BootstrapTokenLimits(tuple(options["patterns"]), options["max_uses"]),
    )


def _usage(text: str) -> token_secret.TokenUsage:
    try:
        return token_secret.TokenUsage(text)
    except ValueError as cause:
        known = ", ".join(token_secret.TokenUsage)
        raise click.BadParameter(f"{text!r} is not a usage: choose from {known}", param_hint="--usages") from cause


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",")] if text else []


def _show_join_command(
    info: ClusterInfo, record: token_secret.TokenRecord, flags: Sequence[str], options: dict[str, Any]
) -> None:
    """Write the command to the file that was named, or print it; the token only on a terminal or when asked for."""
    # A token for one name is of use to that cluster alone; the name of any other is for the person to choose.
    named = [name for name in record.limits.patterns if "*" not in name]
    name = named[0] if len(record.limits.patterns) == len(named) == 1 else ""
    end = f" --cluster-name {name}" if name else ""
    whole = f"{shlex.join(token_secret.join_command(info, record.token, flags))}{end}"
    if options["command_file"]:
        join_command_file(options["command_file"], whole)
    elif options["show_token"] or sys.stdout.isatty():
        echo(whole)
    else:
        echo(f"{shlex.join(token_secret.join_command(info, None, flags))}{end}")
        print_progress(
            f"the secret of token {record.token.id} is shown on a terminal only: use --output-join-command-file or "
            "--show-token"
        )
