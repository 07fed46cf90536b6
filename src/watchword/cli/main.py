"""The `watchword` command: finds the verb, runs it, and turns every failure into one sentence."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from watchword import __version__
from watchword.cli._exit_codes import ExitCode, decide_failure


class LazyGroup(click.Group):
    """Has its commands by name and one line of help; each is in a module that exports `command`."""

    def __init__(self, *args: Any, commands_by_module: Mapping[str, tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._catalog = dict(commands_by_module)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self._catalog, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._catalog:
            return super().get_command(ctx, cmd_name)
        module, _ = self._catalog[cmd_name]
        command = import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is not a click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's shape
        """Write the list of commands from the catalog alone: help must not pay for imports."""
        eager = {name: command.get_short_help_str() for name, command in self.commands.items()}
        rows = [(name, summary) for name, (_, summary) in self._catalog.items()] + list(eager.items())
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a misspelt one gets its nearest neighbours as a response."""
        known = self.list_commands(ctx)
        near = [] if ctx.resilient_parsing or args[0] in known else _nearest(args[0], known)
        if near:
            ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(near)}?")
        return super().resolve_command(ctx, args)


def _nearest(word: str, names: list[str]) -> list[str]:
    from difflib import get_close_matches

    return get_close_matches(word, names, n=2)


COMMANDS: dict[str, tuple[str, str]] = {
    "up": ("watchword.cli.up", "Bring up a hub and managed clusters on this machine."),
    "down": ("watchword.cli.down", "Stop the fleet that runs on this machine."),
    "reset": ("watchword.cli.reset", "Remove the fleet on this machine, with all its data."),
    "backup": ("watchword.cli.backup", "Back up a control plane of this machine, or a hub, to one file."),
    "restore": ("watchword.cli.restore", "Restore a control plane of this machine, or a hub, from a backup."),
    "status": ("watchword.cli.status", "List clusters, add-ons and credentials with expiry and health."),
    "dashboard": ("watchword.cli.dashboard", "Show every credential of the fleet in a browser."),
    "forecast": ("watchword.cli.forecast", "List credentials that expire soon."),
    "doctor": ("watchword.cli.doctor", "Diagnose a hub or a cluster, with the next command."),
    "logs": ("watchword.cli.logs", "Print the logs of the hub, the agent or the operator."),
    "rotate": ("watchword.cli.rotate", "Renew a credential now."),
    "init": ("watchword.cli.init", "Set up this cluster as a hub."),
    "join": ("watchword.cli.join", "Join this cluster to a hub."),
    "accept": ("watchword.cli.accept", "Accept clusters that have asked to join."),
    "deny": ("watchword.cli.deny", "Deny clusters: remove their rights and deny their pending requests."),
    "revoke": ("watchword.cli.revoke", "Revoke credentials of any kind."),
    "clusters": (
        "watchword.cli.clusters",
        "List the clusters of a hub.",
    ),
    "unjoin": ("watchword.cli.unjoin", "Remove this cluster from its hub."),
    "rejoin": ("watchword.cli.rejoin", "Rejoin a cluster whose credential expired or was lost."),
    "clean": ("watchword.cli.clean", "Remove the hub from this cluster."),
    "token": ("watchword.cli.token", "Create, list and delete bootstrap tokens."),
    "discover": ("watchword.cli.discover", "Find and verify a cluster, and print how to connect to it."),
    "addon": ("watchword.cli.addon", "Enable, disable and show the add-ons of clusters."),
    "serviceaccount": ("watchword.cli.serviceaccount", "Create, show and revoke managed service accounts."),
    "msa": ("watchword.cli.msa", "Create, show and revoke managed service accounts."),
    "hub": ("watchword.cli.hub", "Run the controllers of a hub."),
    "grpc-server": ("watchword.cli.grpc_server", "Serve agents that reach the hub over gRPC."),
    "agent": ("watchword.cli.agent", "Run the agent of a managed cluster."),
    "operator": ("watchword.cli.operator", "Run the operator that deploys agents and hubs."),
    "pull-secrets": (
        "watchword.cli.pull_secrets",
        "Keep image pull secrets with short-lived tokens, or list them.",
    ),
    "registry-auth": (
        "watchword.cli.registry_auth",
        "Run the token service of a registry: exchange Kubernetes tokens for registry tokens.",
    ),
    "credential-provider": (
        "watchword.cli.credential_provider",
        "Run as the kubelet's credential provider, with the pod's own token.",
    ),
    "manifests": ("watchword.cli.manifests", "Print manifests to apply to a cluster, without contacting a server."),
    "aws": ("watchword.cli.aws", "Prepare AWS accounts for clusters that register by IAM."),
    "undeploy": ("watchword.cli.undeploy", "Delete deployed resources and wait until they are removed."),
    "clean-clusters": ("watchword.cli.clean_clusters", "Delete clusters that left by `unjoin` and were not deleted."),
    "sample-addon": ("watchword.cli.sample_addon", "Run the sample add-on: its agent, or its hub side."),
    "managed-serviceaccount": (
        "watchword.cli.managed_serviceaccount",
        "Run the add-on of managed service accounts: its agent, or its hub side.",
    ),
    "apiserver": ("watchword.cli.apiserver", "Run a Kubernetes API in one process."),
    "completion": ("watchword.cli.completion", "Print the shell code that completes commands."),
}
"""Name → module that exports `command`, and the first line of its help; in order of use."""


COLLECTION_THRESHOLDS = (20_000, 10, 5)
"""When garbage is looked for: seldom, because almost all that imports and the start of a process make stays.

Everything is searched after a million more objects, so that cycles that a library leaves do not stay for ever.
"""


class GlobalOptions(NamedTuple):
    """The flags before the command; commands get it with `click.pass_obj`."""

    verbosity: int = 0

    @property
    def log_level(self) -> str:
        return "debug" if self.verbosity else "info"


@click.group(
    cls=LazyGroup,
    commands_by_module=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option("-v", "--verbose", "verbosity", count=True, help="Log more; -vv logs everything and prints tracebacks.")
@click.version_option(__version__, "--version", prog_name="watchword", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, verbosity: int) -> None:
    """Give every member of a Kubernetes fleet a credential.

    Clusters and their add-ons get credentials that are discovered, issued, rotated and revoked without a
    human touching a key. To see it, run `watchword up`: nothing else is needed.
    """
    ctx.obj = GlobalOptions(verbosity)


def main() -> None:
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    _fill_standard_streams()
    sys.exit(run(sys.argv[1:]))


def _fill_standard_streams() -> None:
    """Put nothing where a standard stream was closed: a socket that got its number would be mistaken for it."""
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))


def run(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; no exception escapes but a request to exit."""
    # Before parsing, because a parse error has no context.
    tracebacks = any(flag in argv for flag in ("-vv", "-vvv"))
    try:
        result = cli.main(args=list(argv), prog_name="watchword", standalone_mode=False)
    except click.exceptions.Exit as exit_request:
        return exit_request.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has gone; a second failure while flushing at exit would print a traceback.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        if tracebacks:
            raise
        return _report(error)
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    from watchword.cli.output import echo_line

    failure = decide_failure(error)
    echo_line(f"watchword: {failure.sentence}", err=True)
    return failure.exit_code
