"""`watchword revoke`: ends credentials of every kind, and says when their holders were refused."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from watchword.admin.accept import HubAdmin
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke.holders import HolderLookup, Holding, read_held_entries, with_held_tokens
from watchword.admin.revoke.kinds import KINDS, PLANNERS, RevocableKind
from watchword.admin.revoke.revocation import Refusal, Revocation, RevocationResult, RevocationTarget, Revoker
from watchword.cli._exit_codes import ExitCode
from watchword.cli.administrator_events import administrator_events
from watchword.cli.connection_options import ClusterConnection, complete_clusters, complete_tokens, connection_options
from watchword.cli.options import argument, change_options, flag, gathered, output_option, split, wait_options
from watchword.cli.output import confirm, echo, format_document
from watchword.kube.access_reviews import UserIdentity, who_am_i
from watchword.kube.connect import endpoint_of, make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.errors import ConfigError, Forbidden, Unauthorized
from watchword.runtime.clock import SystemClock


def describe_plan(revocation: Revocation) -> str:
    lines = [f"{revocation.target} would be revoked:", *(f"  {action}" for action in revocation.actions)]
    lines += [f"  note: {revocation.consequence}"] if revocation.consequence else []
    return "\n".join(lines)


def describe_result(result: RevocationResult) -> str:
    target = result.revocation.target
    if result.error:
        return f"{target} is not revoked: {result.error}"
    lines = [f"{target} {'revoked' if result.changed else 'was revoked before'}"]
    lines += [f"  {describe_refusal(refusal)}" for refusal in result.refusals]
    lines += [f"  note: {result.revocation.consequence}"] if result.revocation.consequence else []
    return "\n".join(lines)


def describe_refusal(refusal: Refusal) -> str:
    if refusal.before:
        return f"{refusal.holder}: was refused before"
    if refusal.seconds is None:
        return f"{refusal.holder}: no refusal observed: {refusal.error}"
    return f"{refusal.holder}: refused after {refusal.seconds:.2f} s"


def describe_holding(holding: Holding) -> str:
    if holding.target is not None:
        return f"{holding.entry} holds {holding.target}"
    who = f" ({holding.identity})" if holding.identity else ""
    return f"{holding.entry}{who}: {holding.problem}"


def format_outcome(
    results: Sequence[RevocationResult], holdings: Sequence[Holding], form: str, *, dry_run: bool
) -> str:
    document = {
        "dryRun": dry_run,
        "revocations": [_result_document(result) for result in results],
        "held": [_holding_document(holding) for holding in holdings],
    }
    return format_document(document, form)


def _result_document(result: RevocationResult) -> dict[str, Any]:
    revocation = result.revocation
    return {
        "kind": revocation.target.kind,
        "name": revocation.target.name,
        "changed": result.changed,
        "actions": list(revocation.actions),
        "note": revocation.consequence,
        "error": result.error,
        "refusals": [
            {
                "holder": refusal.holder,
                "seconds": refusal.seconds,
                "error": refusal.error,
                "refusedBefore": refusal.before,
            }
            for refusal in result.refusals
        ],
    }


def _holding_document(holding: Holding) -> dict[str, Any]:
    target = holding.target
    return {
        "file": str(holding.entry.path),
        "user": holding.entry.user,
        "identity": holding.identity,
        "kind": target.kind if target is not None else "",
        "name": target.name if target is not None else "",
        "problem": holding.problem,
        "accepted": not holding.is_harmless,
    }


def choose_exit_code(results: Sequence[RevocationResult], holdings: Sequence[Holding]) -> ExitCode:
    """Return the code: what was not revoked counts more than a refusal that was not observed."""
    if any(result.error for result in results):
        return ExitCode.FAILED
    if any(holding.target is None and not holding.is_harmless for holding in holdings):
        return ExitCode.LEFTOVERS
    return ExitCode.UNREACHABLE if any(result.unproved for result in results) else ExitCode.DONE


COMPLETIONS = {"cluster": complete_clusters, "token": complete_tokens}


class RevokeOptions(Struct, frozen=True, kw_only=True):
    """The flags that all kinds share."""

    output: str
    wait: timedelta | None
    dry_run: bool
    yes: bool
    ignore_not_found: bool


revoke_options = gathered(
    "options",
    RevokeOptions,
    change_options("Print what would be done without changing anything.", asks=True),
    flag("--ignore-not-found", help="Do not fail when a credential does not exist."),
    wait_options("the holders are refused, and print after what time"),
    output_option(),
)


@click.group("revoke")
def command() -> None:
    """Revoke credentials of any kind.

    For each object that is revoked, this writes an Event on the hub; `watchword -v revoke` also prints it as an audit
    line. With --wait, it asks the servers until each holder is refused, and prints after what time that was.
    """


def _add_kind(kind: RevocableKind) -> None:
    @command.command(kind.name, help=kind.summary)
    @argument("names", nargs=-1, required=True, metavar=f"{kind.form}...", shell_complete=COMPLETIONS.get(kind.name))
    @revoke_options
    @connection_options
    async def verb(connection: ClusterConnection, names: tuple[str, ...], options: RevokeOptions) -> int:
        targets = [RevocationTarget(kind.name, name) for name in split(names)]
        return await _run(connection, options, targets)


for _kind in KINDS:
    _add_kind(_kind)


@command.command("held-by")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path, exists=True))
@revoke_options
@connection_options
async def held_by(connection: ClusterConnection, paths: tuple[Path, ...], options: RevokeOptions) -> int:
    """Revoke all that kubeconfigs hold, such as those of a lost machine.

    PATH is a kubeconfig or a folder that is searched for kubeconfigs. Each credential is shown to the hub, which
    says whose it is. Plugins are not run. What cannot be revoked is listed with the next step, and the exit code is 5.
    """
    return await _run(connection, options, paths=paths)


async def _run(
    connection: ClusterConnection,
    options: RevokeOptions,
    targets: Sequence[RevocationTarget] = (),
    paths: Sequence[Path] = (),
) -> int:
    results, holdings = await _revoke(connection, options, targets, paths)
    if options.output != "table":
        echo(format_outcome(results, holdings, options.output, dry_run=options.dry_run), nl=False)
    else:
        for line in [describe_holding(holding) for holding in holdings if holding.target is None]:
            echo(line)
        for result in results:
            echo(describe_plan(result.revocation) if options.dry_run else describe_result(result))
    return choose_exit_code(results, holdings)


async def _revoke(
    connection: ClusterConnection, options: RevokeOptions, targets: Sequence[RevocationTarget], paths: Sequence[Path]
) -> tuple[list[RevocationResult], list[Holding]]:
    async with connection.client() as client:

        async def authenticate(credential: Credential) -> UserIdentity | None:
            return await _authenticate(connection, credential)

        lookup = HolderLookup(client, SystemClock(), authenticate)
        holdings = [await lookup.find(entry) for path in paths for entry in read_held_entries(path)]
        found = dict.fromkeys(holding.target for holding in holdings if holding.target is not None)
        admin = HubAdmin(client, SystemClock())
        planned = await _plan(admin, [*targets, *found], ignore_not_found=options.ignore_not_found or bool(paths))
        planned = [with_held_tokens(client, each, holdings) for each in planned]
        if options.dry_run or not planned:
            return [RevocationResult(each) for each in planned], holdings
        if not options.yes:
            for line in (*map(describe_holding, holdings), *map(describe_plan, planned)):
                echo(line, err=True)
        confirm("Revoke?", "this revokes what is listed above", yes=options.yes)
        async with administrator_events(client, "revoke") as (events, administrator):
            return await Revoker(events, administrator, options.wait).run(planned), holdings


async def _plan(admin: HubAdmin, targets: Sequence[RevocationTarget], *, ignore_not_found: bool) -> list[Revocation]:
    """Plan all before anything is changed."""
    planned: list[Revocation] = []
    for target in targets:
        try:
            planned.append(await PLANNERS[target.kind](admin, target.name))
        except NotFoundOnHub as objection:
            if not ignore_not_found:
                raise
            echo(str(objection), err=True)
    return planned


async def _authenticate(connection: ClusterConnection, credential: Credential) -> UserIdentity | None:
    """Show a credential to the hub of this command, whichever server its kubeconfig names."""
    endpoint = endpoint_of(connection.choice().cluster)  # a `ConfigError` here says nothing about the credential
    try:
        async with make_client(endpoint, FixedCredential(credential)) as client:
            return await who_am_i(client)
    except (Unauthorized, Forbidden, ConfigError):  # Forbidden: it is anonymous
        return None
