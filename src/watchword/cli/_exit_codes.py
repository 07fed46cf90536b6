"""Maps errors to a sentence for people and an exit code for scripts."""

from __future__ import annotations

import sys
from enum import IntEnum
from typing import NamedTuple


class ExitCode(IntEnum):
    """Every code with which a command ends; each has one meaning."""

    DONE = 0
    FAILED = 1
    NOT_USABLE = 2
    UNREACHABLE = 3
    REFUSED = 4
    LEFTOVERS = 5
    ATTENTION = 6
    BUG = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130
    BROKEN_PIPE = 141


MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed for a reason that the sentence on standard error gives",
    ExitCode.NOT_USABLE: "a flag, a file or a token is missing, or cannot be used",
    ExitCode.UNREACHABLE: "the server did not answer, or what was waited for did not come in time: try again later",
    ExitCode.REFUSED: "the server, a check of ours, or the answer to a question said no; nothing was changed",
    ExitCode.LEFTOVERS: "done here, but something is left to do elsewhere (`unjoin`, `revoke held-by`)",
    ExitCode.ATTENTION: "something needs attention (`doctor`, `status --check`)",
    ExitCode.BUG: "a bug: run it again with `-vv` and report what it prints",
    ExitCode.INTERRUPTED: "interrupted by Ctrl-C",
    ExitCode.BROKEN_PIPE: "the reader of the output went away",
}


class Failure(NamedTuple):
    """One sentence for people, one number for scripts."""

    sentence: str
    exit_code: ExitCode


# The first row that matches decides, so a row stands before those of its base classes. Names instead of
# classes: a package that was never imported cannot have raised, and must not be imported for this table.
EXIT_CODES: tuple[tuple[str, str, ExitCode], ...] = (
    ("watchword.discovery.errors", "NotTrusted", ExitCode.REFUSED),
    ("watchword.discovery.errors", "DiscoveryTimedOut", ExitCode.UNREACHABLE),
    ("watchword.discovery.errors", "BootstrapTimedOut", ExitCode.UNREACHABLE),
    ("watchword.discovery.errors", "BootstrapFailed", ExitCode.REFUSED),
    ("watchword.discovery.errors", "BootstrapTokenRefused", ExitCode.NOT_USABLE),
    ("watchword.discovery.errors", "ClusterInfoRefused", ExitCode.NOT_USABLE),
    ("watchword.discovery.errors", "SourceRefused", ExitCode.NOT_USABLE),
    ("watchword.admin.errors", "OperationRefused", ExitCode.REFUSED),
    ("watchword.admin.errors", "InvalidInput", ExitCode.NOT_USABLE),
    ("watchword.admin.errors", "NotReady", ExitCode.UNREACHABLE),
    ("watchword.registration.agent.errors", "NameTaken", ExitCode.REFUSED),
    ("watchword.dashboard.process", "NotLoopback", ExitCode.NOT_USABLE),
    ("watchword.registration.errors", "UnknownDriver", ExitCode.NOT_USABLE),
    ("watchword.registration.aws_irsa.errors", "InvalidName", ExitCode.NOT_USABLE),
    ("watchword.registration.aws_irsa.errors", "LibraryMissing", ExitCode.NOT_USABLE),
    ("watchword.registration.aws_irsa.errors", "AwsUnreachable", ExitCode.UNREACHABLE),
    ("watchword.registration.aws_irsa.errors", "WrongAccount", ExitCode.REFUSED),
    ("watchword.registration.aws_irsa.errors", "ForeignRole", ExitCode.REFUSED),
    ("watchword.registration.aws_irsa.errors", "RoleTaken", ExitCode.REFUSED),
    ("watchword.registration.aws_irsa.errors", "StillAccepted", ExitCode.REFUSED),
    ("watchword.registration.grpc.errors", "TlsFilesUnusable", ExitCode.NOT_USABLE),
    ("watchword.pullsecrets.credential_provider", "CredentialRequestRefused", ExitCode.NOT_USABLE),
    ("watchword.pki.errors", "PkiError", ExitCode.NOT_USABLE),
    ("watchword.kube.errors", "ConfigError", ExitCode.NOT_USABLE),
    ("watchword.kube.errors", "Unreachable", ExitCode.UNREACHABLE),
    ("watchword.kube.errors", "Unauthorized", ExitCode.REFUSED),
    ("watchword.kube.errors", "Forbidden", ExitCode.REFUSED),
)

CREDENTIAL_UNKNOWN = "the server does not know this credential: it may have expired, or belong to another cluster"

OURS = "watchword."


def decide_failure(error: Exception) -> Failure:
    """Decide what to print about an exception that reached the command line."""
    if not _is_own_error(error):
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror.lower()}", ExitCode.FAILED)
        # The message of a foreign exception may quote anything, a secret included: only its type is shown.
        unexpected = f"stopped by an unexpected {type(error).__name__}; run again with -vv and report what it prints"
        return Failure(unexpected, ExitCode.BUG)
    for module, name, exit_code in EXIT_CODES:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return Failure(_sentence(error, name), exit_code)
    return Failure(str(error), ExitCode.FAILED)


def _sentence(error: Exception, kind: str) -> str:
    """Return what to print; a server's 401 contains no more than the status."""
    return f"{CREDENTIAL_UNKNOWN} ({error}); get a new kubeconfig" if kind == "Unauthorized" else str(error)


def _is_own_error(error: Exception) -> bool:
    """Whether one of our packages raised it on purpose: those messages are written for people."""
    return any(kind.__module__.startswith(OURS) for kind in type(error).__mro__)
