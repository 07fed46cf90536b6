"""What `watchword revoke` prints about plans, results and what cannot be revoked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from watchword.cli._exit_codes import ExitCode
from watchword.cli.common_options import format_document

if TYPE_CHECKING:
    from watchword.admin.revoke.holders import Holding
    from watchword.admin.revoke.refusals import Refusal
    from watchword.admin.revoke.revocation import Revocation
    from watchword.admin.revoke.revoker import RevocationResult


def describe_plan(revocation: Revocation) -> str:
    """Return what a revocation would do, in lines."""
    lines = [f"{revocation.target} would be revoked:", *(f"  {action}" for action in revocation.actions)]
    lines += [f"  note: {revocation.consequence}"] if revocation.consequence else []
    return "\n".join(lines)


def describe_result(result: RevocationResult) -> str:
    """Return what became of a revocation, in lines."""
    target = result.revocation.target
    if result.trouble:
        return f"{target} is not revoked: {result.trouble}"
    lines = [f"{target} {'revoked' if result.changed else 'was revoked before'}"]
    lines += [f"  {describe_refusal(refusal)}" for refusal in result.refusals]
    lines += [f"  note: {result.revocation.consequence}"] if result.revocation.consequence else []
    return "\n".join(lines)


def describe_refusal(refusal: Refusal) -> str:
    """Return when a holder was refused."""
    if refusal.seconds is None:
        return f"{refusal.holder}: no refusal observed: {refusal.trouble}"
    return f"{refusal.holder}: refused after {refusal.seconds:.2f} s"


def describe_holding(holding: Holding) -> str:
    """Return what one entry of a kubeconfig holds."""
    if holding.target is not None:
        return f"{holding.entry} holds {holding.target}"
    who = f" ({holding.identity})" if holding.identity else ""
    return f"{holding.entry}{who}: {holding.problem}"


def format_outcome(
    results: Sequence[RevocationResult], holdings: Sequence[Holding], form: str, *, dry_run: bool
) -> str:
    """Return the outcome as JSON or YAML."""
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
        "error": result.trouble,
        "refusals": [
            {"holder": refusal.holder, "seconds": refusal.seconds, "error": refusal.trouble}
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
    if any(result.trouble for result in results):
        return ExitCode.FAILED
    if any(holding.target is None and not holding.is_harmless for holding in holdings):
        return ExitCode.LEFTOVERS
    return ExitCode.UNREACHABLE if any(result.unproved for result in results) else ExitCode.DONE
