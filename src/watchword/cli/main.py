"""The `watchword` command: finds the verb, runs it, and turns every failure into one sentence."""

import gc
import os
import resource
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import click

from watchword import __version__
from watchword.cli._exit_codes import ExitCode, decide_failure

START, FLEET, CREDENTIALS = "Start here", "Fleet", "Credentials"
WORK, ADMINISTRATION, PROCESSES = "Cluster sets and work", "Hub administration", "Processes and helpers"

GROUPS: dict[str, dict[str, str]] = {
    START: {
        "up": "Bring up a hub and managed clusters on this machine.",
        "down": "Stop the fleet that runs on this machine.",
        "reset": "Remove the fleet on this machine, with all its data.",
        "init": "Set up this cluster as a hub.",
        "join": "Join this cluster to a hub.",
        "accept": "Accept clusters that have asked to join.",
        "status": "List clusters, add-ons and credentials with expiry and health.",
        "doctor": "Diagnose a hub or a cluster, with the next command.",
    },
    FLEET: {
        "clusters": "List the clusters of a hub.",
        "addon": "Enable, disable and show the add-ons of clusters.",
        "serviceaccount": "Create, show and revoke managed service accounts.",
        "dashboard": "Show every credential of the fleet in a browser.",
        "logs": "Print the logs of the hub, the agent or the operator.",
        "deny": "Deny clusters: remove their rights and deny their pending requests.",
        "rejoin": "Rejoin a cluster whose credential expired or was lost.",
        "unjoin": "Remove this cluster from its hub.",
    },
    CREDENTIALS: {
        "token": "Create, list and delete bootstrap tokens.",
        "rotate": "Renew credentials now.",
        "revoke": "Revoke credentials of any kind.",
        "inspect": "Show one credential: subject, issuer, where it is stored, next renewal.",
        "forecast": "List credentials that expire soon.",
        "discover": "Find and verify a cluster, and print how to connect to it.",
        "pull-secrets": "Keep image pull secrets with short-lived tokens, or list them.",
    },
    WORK: {
        "clusterset": "Create cluster sets, fill them, and bind them to namespaces.",
        "work": "Apply objects to clusters through the hub, and show their status.",
    },
    ADMINISTRATION: {
        "upgrade": "Upgrade the hub of this cluster, then agents.",
        "backup": "Back up a control plane of this machine, or a hub, to one file.",
        "restore": "Restore a control plane of this machine, or a hub, from a backup.",
        "clean": "Remove the hub from this cluster.",
        "manifests": "Print manifests to apply to a cluster, without contacting a server.",
        "aws": "Prepare AWS accounts for clusters that register by IAM.",
        "version": "Print the versions of this program, of the hub and of the agents.",
        "completion": "Print the shell code that completes commands.",
    },
    PROCESSES: {
        "hub": "Run the controllers of a hub.",
        "agent": "Run the agent of a managed cluster.",
        "operator": "Run the operator that deploys agents and hubs.",
        "grpc-server": "Serve agents that reach the hub over gRPC.",
        "registry-auth": "Run the token service of a registry: exchange Kubernetes tokens for registry tokens.",
        "credential-provider": "Run as the kubelet's credential provider, with the pod's own token.",
        "sample-addon": "Run the sample add-on: its agent, or its hub side.",
        "managed-serviceaccount": "Run the add-on of managed service accounts: its agent, or its hub side.",
        "apiserver": "Run a Kubernetes API in one process.",
        "clean-clusters": "Delete clusters that left by `unjoin` and were not deleted.",
        "undeploy": "Delete deployed resources and wait until they are removed.",
        "help": "Show the help of a command, or the processes and helpers.",
    },
}
"""The commands in groups, in order of use; the last group is not on the first screen."""

COMMANDS = {name: summary for group in GROUPS.values() for name, summary in group.items()}
"""Name → first line of help; each is in the module of its name, which exports `command`."""

ALIASES = {
    "msa": "serviceaccount",
    "serviceaccounts": "serviceaccount",
    "addons": "addon",
    "cluster": "clusters",
    "tokens": "token",
    "clustersets": "clusterset",
    "works": "work",
}
"""Other spellings, which are not listed."""

OTHER_WORDS = {
    "get": ("status", "clusters"),
    "list": ("status", "clusters"),
    "ls": ("status", "clusters"),
    "describe": ("clusters show", "inspect"),
    "show": ("clusters show", "inspect"),
    "create": ("token create", "clusterset create", "work create"),
    "delete": ("deny", "revoke"),
    "approve": ("accept",),
    "register": ("join",),
    "renew": ("rotate",),
    "start": ("up",),
    "stop": ("down",),
    "uninstall": ("clean", "unjoin"),
    "info": ("version", "status"),
}
"""Commands of other programs, and what they are called here."""


class OutputClosed(Exception):
    """The program that reads our output (`| head`) has ended."""


class LazyGroup(click.Group):
    """Has its commands by name and one line of help; each is in a module that exports `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        name = ALIASES.get(cmd_name, cmd_name)
        if name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = f"watchword.cli.{name.replace('-', '_')}"
        command = import_module(module).command
        if not isinstance(command, click.Command):
            raise TypeError(f"{module}.command is not a click command")
        from watchword.cli.examples import add_examples

        add_examples(command, name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Handle a closed pipe: click itself would exit with 1 and no message."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as cause:
            raise OutputClosed from cause

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's shape
        """Write the list of commands from the catalog alone: help must not pay for imports."""
        for title in GROUPS:
            if title != PROCESSES:
                write_group(formatter, title)
        formatter.write_paragraph()
        formatter.write_text("`watchword COMMAND --help` shows options and examples; `help processes` lists the rest.")

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; an unknown or misspelt word gets suggestions."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            near = suggest(args, self.list_commands(ctx))
            if near:
                ctx.fail(f"No such command {args[0]!r}; did you mean {' or '.join(f'`{name}`' for name in near)}?")
        return super().resolve_command(ctx, args)


def write_group(formatter: click.HelpFormatter, title: str) -> None:
    """Write one group of the overview; summaries begin at the same column in all."""
    with formatter.section(title):
        widest = max(
            len(name) for other in GROUPS if (other == PROCESSES) == (title == PROCESSES) for name in GROUPS[other]
        )
        formatter.write_dl([(name.ljust(widest), summary) for name, summary in GROUPS[title].items()], col_max=widest)


def suggest(args: Sequence[str], names: Sequence[str]) -> Sequence[str]:
    """Return the commands that may be meant: `get addons` is `addon list`, `completoin` is `completion`."""
    from difflib import get_close_matches

    word, noun = args[0], ALIASES.get(args[1], args[1]) if len(args) > 1 else ""
    verb = {"get": "list", "describe": "show", "ls": "list"}.get(word, word)
    if word in OTHER_WORDS and noun == "clusters":
        return ("clusters", "status") if verb == "list" else (f"clusters {verb}",)
    if word in OTHER_WORDS and noun in ("addon", "serviceaccount", "token", "clusterset", "work"):
        return (f"{noun} {verb}",)
    return OTHER_WORDS.get(word) or get_close_matches(word, names, n=2)


COLLECTION_THRESHOLDS = (20_000, 10, 5)
"""When garbage is looked for: seldom, because almost all that imports and the start of a process make stays.

Everything is searched after a million more objects, so that cycles that a library leaves do not stay for ever.
"""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("-v", "--verbose", "verbosity", count=True, help="Log more; -vv logs everything and prints tracebacks.")
@click.version_option(__version__, "--version", prog_name="watchword", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, verbosity: int) -> None:
    """Give every member of a Kubernetes fleet a credential.

    Clusters and their add-ons get credentials that are discovered, issued, rotated and revoked without a
    human touching a key. To see it, run `watchword up`: nothing else is needed.
    """
    ctx.obj = verbosity


def main() -> None:
    gc.set_threshold(*COLLECTION_THRESHOLDS)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core dump holds keys and tokens
    # Put nothing where a standard stream was closed: a socket that got its number would be mistaken for it.
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8"))
    sys.exit(run(sys.argv[1:]))


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
    except OutputClosed:
        # A second failure while flushing at exit would print a traceback.
        for stream in (sys.stdout, sys.stderr):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        return ExitCode.BROKEN_PIPE
    except Exception as error:
        if tracebacks:
            raise
        from watchword.cli.output import echo_line

        failure = decide_failure(error)
        echo_line(f"watchword: {failure.sentence}", err=True)
        return failure.exit_code
    return result if isinstance(result, int) else 0
