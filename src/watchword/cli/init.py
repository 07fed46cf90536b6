"""`watchword init`: makes the cluster of a kubeconfig a hub that others can find and join."""

import shlex
import sys
from datetime import timedelta
from typing import Any

import click
from msgspec.structs import replace

from watchword.admin.hub_setup import HubSetup
from watchword.admin.init import HubInitializer, InitOptions, InitResult, TokenSpec
from watchword.api.bootstrap import MANAGED_CLUSTER_GROUP, NODE_GROUP
from watchword.api.limits import BOOTSTRAP_TOKEN_TTL, LEFT_CLUSTER_RETENTION
from watchword.api.names import IMAGE_VARIABLE
from watchword.cli.connection_options import ClusterConnection, cluster_name_of, cluster_options
from watchword.cli.driver_options import driver_options, driver_settings, with_kubeconfig_settings
from watchword.cli.options import (
    JOIN_COMMAND_OPTIONS,
    duration,
    flag,
    many,
    parse_duration_flag,
    split,
    text,
    with_options,
)
from watchword.cli.output import echo, format_document, join_command_file, print_progress
from watchword.cli.process_options import FeatureGates
from watchword.cli.secret_input import HELP, SecretReader
from watchword.cli.token import describe_power
from watchword.credentials.driver import Side
from watchword.discovery.cluster_info import cluster_info_from_kubeconfig
from watchword.discovery.discovery_document import parse_endpoint
from watchword.discovery.token_secret import choose_token, join_command
from watchword.registration.catalog import CATALOG
from watchword.runtime.clock import SystemClock

OPTIONS = (
    click.option("--token", default=None, help=f'Bootstrap token to create; random by default, "" for none. {HELP}.'),
    duration("--token-ttl", default=BOOTSTRAP_TOKEN_TTL, help="Lifetime of the token; 0 for no expiry."),
    flag("--force-weak-token", help="Accept a token that can be guessed easily."),
    many(
        "--registration-auth",
        "--registration-drivers",
        "drivers",
        help=f"Registration drivers to enable, separated by commas; {CATALOG.default} on a new hub.",
    ),
    text("--feature-gates", type=FeatureGates(), help="Feature gates, for example ManagedClusterAutoApproval=true."),
    many("--hub-apiserver", "endpoints", help="URL of this hub's API server for clusters; repeatable."),
    click.option(
        "--approve-nodes/--no-approve-nodes",
        default=None,
        help="Approve node certificates of kubelets with a node token automatically.",
    ),
    text(
        "--image",
        envvar=IMAGE_VARIABLE,
        help="Image of the controllers, built and pushed by you; by default that of the hub.",
    ),
    text(
        "--left-cluster-retention",
        "retention",
        help=f"How long clusters that left by `unjoin` are kept; {LEFT_CLUSTER_RETENTION} on a new hub.",
    ),
    click.option(
        "--deploy/--no-deploy",
        default=None,
        help="Deploy the controllers in this cluster, or run them elsewhere; deployed on a new hub.",
    ),
    click.option(
        "--probe/--no-probe",
        default=True,
        help="Check with a test CertificateSigningRequest that this hub issues client certificates.",
    ),
    *JOIN_COMMAND_OPTIONS,
    flag("--use-bootstrap-token", hidden=True, help="Ignored; accepted for compatibility."),
)


@click.command("init")
@with_options(*OPTIONS)
@driver_options(Side.HUB, stored=True)
@cluster_options(dry_run=True, wait="the controllers run and the token can be used", output=True)
async def command(connection: ClusterConnection, output: str, wait: timedelta | None, **flags: Any) -> None:
    """Set up this cluster as a hub.

    Run it again to change settings: what the command line does not name stays as it is, and a token of an earlier run
    is handed out again while at least half of its life is left. The token is printed on a terminal only; elsewhere
    use --output-join-command-file or --show-token.
    """
    token_spec = _token_spec(flags)
    options = InitOptions(
        _setup(connection, flags),
        token_spec,
        keep_published=not flags["endpoints"],
        probe=flags["probe"],
        dry_run=flags["dry_run"],
        wait=wait,
    )
    async with connection.client() as client:
        hub = await HubInitializer(client, SystemClock(), print_progress).run(options)
    for warning in hub.warnings:
        print_progress(f"warning: {warning}")
    if hub.record is not None:
        print_progress(describe_power(hub.record))
    kept = bool(flags["command_file"]) and hub.record is not None and not options.dry_run
    if kept:
        join_command_file(flags["command_file"], _join_command(hub, secret=True))
    _show(hub, options, output, show_token=flags["show_token"], kept=kept)


def _token_spec(flags: dict[str, Any]) -> TokenSpec | None:
    """Return which token is wanted, None for none; raises `BootstrapTokenRefused` for a weak or malformed one."""
    reader = SecretReader()
    text = reader.from_environment() if flags["token"] is None else reader.read(flags["token"])
    if flags["token"] == "":
        return None
    groups = (MANAGED_CLUSTER_GROUP, NODE_GROUP) if flags["approve_nodes"] else (MANAGED_CLUSTER_GROUP,)
    token = choose_token(text, force=flags["force_weak_token"]) if text else None
    return TokenSpec(flags["token_ttl"], token, groups)


def _setup(connection: ClusterConnection, flags: dict[str, Any]) -> HubSetup:
    drivers = tuple(dict.fromkeys(CATALOG.find(name).name for name in split(flags["drivers"])))
    settings = driver_settings(flags, Side.HUB)
    for name in drivers:
        settings = with_kubeconfig_settings(settings, Side.HUB, name, cluster_name_of(connection))
    objections = CATALOG.validate(Side.HUB, settings)
    if objections:
        raise click.UsageError("; ".join(objections))
    if flags["retention"]:
        parse_duration_flag(flags["retention"], "--left-cluster-retention")
    endpoints = tuple(parse_endpoint(text) for text in split(flags["endpoints"]))
    info = cluster_info_from_kubeconfig(connection.choice())
    return HubSetup(
        info=replace(info, endpoints=endpoints or info.endpoints),
        drivers=drivers,
        settings=settings,
        gates=flags["feature_gates"],
        image=flags["image"],
        retention=flags["retention"],
        deploy=flags["deploy"],
        approve_nodes=flags["approve_nodes"],
    )


def _join_command(hub: InitResult, *, secret: bool) -> str:
    token = hub.record.token if secret and hub.record else None
    first = next(iter(hub.join_flags.values()), ())
    return f"{shlex.join(join_command(hub.info, token, first))} --cluster-name CLUSTER_NAME"


def _show(hub: InitResult, options: InitOptions, output: str, *, show_token: bool, kept: bool) -> None:
    """Print what came out of it; `kept` is whether a file has the whole join command."""
    shown = show_token or (output == "table" and sys.stdout.isatty())
    secret = hub.record is not None and shown and not options.dry_run  # a token that was not made opens nothing
    line = _join_command(hub, secret=secret)
    if output != "table":
        echo(format_document(_document(hub, line, secret=secret), output), nl=False)
        return
    state = "would be" if options.dry_run else "is"
    ways = ", ".join(hub.join_flags)
    echo(f"this cluster {state} a hub at {hub.info.server}; clusters register by {ways}")
    if options.dry_run:
        for name in hub.applied:
            echo(f"would apply {name}")
        return
    if hub.record is None:
        echo("no token was made: `watchword token create --print-join-command` makes one")
        return
    echo(f"join a cluster with:\n\n  {line}\n")
    for name, flags in list(hub.join_flags.items())[1:]:
        echo(f"for a cluster that registers by {name}, add:\n\n  {shlex.join(flags)}\n")
    if not secret and not kept:
        echo(
            f"the secret of token {hub.record.token.id} is shown on a terminal only: put it into TOKEN_FILE, or use "
            "--output-join-command-file or --show-token"
        )


def _document(hub: InitResult, line: str, *, secret: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "hub-apiserver": hub.info.server,
        "ca-cert-hashes": [str(pin) for pin in hub.info.pins],
        "registration-auth": list(hub.join_flags),
        "join-flags": {name: shlex.join(flags) for name, flags in hub.join_flags.items() if flags},
        "join-command": line,
        "applied": hub.applied,
        "warnings": hub.warnings,
    }
    if hub.record is not None:
        document["token-id"] = hub.record.token.id
    if hub.record is not None and secret:
        document["hub-token"] = hub.record.token.reveal()
    return document
