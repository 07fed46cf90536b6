"""Maps errors to a sentence for people and an exit code for scripts."""

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
    NOT_FOUND = 7
    BUG = 70  # EX_SOFTWARE of sysexits.h
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class Failure(NamedTuple):
    """One sentence for people, one number for scripts."""

    sentence: str
    exit_code: ExitCode


CREDENTIAL_UNKNOWN = "the server does not know this credential: it may have expired, or belong to another cluster"

OURS = "watchword."


def decide_failure(error: Exception) -> Failure:
    if not any(kind.__module__.startswith(OURS) for kind in type(error).__mro__):
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror.lower()}", ExitCode.FAILED)
        # The message of a foreign exception may quote anything, a secret included: only its type is shown.
        unexpected = f"stopped by an unexpected {type(error).__name__}; run again with -vv and report what it prints"
        return Failure(unexpected, ExitCode.BUG)
    exit_code = next((code for kind, code in exit_codes() if isinstance(error, kind)), ExitCode.FAILED)
    return Failure(_sentence(error), exit_code)


def exit_codes() -> tuple[tuple[type[Exception], ExitCode], ...]:
    """Return the code of each error; the first row that matches decides, so it stands before those of base classes."""
    from watchword.accounts.exports import ExportRefused
    from watchword.admin.errors import InvalidInput, NotFoundOnHub, NotReady, OperationRefused
    from watchword.credentials.errors import DriverRefused, InvalidSetting, ServiceUnreachable
    from watchword.dashboard.process import NotLoopback
    from watchword.discovery.errors import (
        BootstrapFailed,
        BootstrapTimedOut,
        BootstrapTokenRefused,
        ClusterInfoRefused,
        DiscoveryTimedOut,
        NotTrusted,
        SourceRefused,
    )
    from watchword.health.errors import AuditLogUnreadable, NotAHub, UnknownCluster
    from watchword.kube.errors import ConfigError, Forbidden, NotFound, Unauthorized, Unreachable
    from watchword.pki.errors import PkiError
    from watchword.pullsecrets.credential_provider import CredentialRequestRefused
    from watchword.registration.agent.membership import NameTaken

    return (
        (NotFoundOnHub, ExitCode.NOT_FOUND),
        (NotTrusted, ExitCode.REFUSED),
        (DiscoveryTimedOut, ExitCode.UNREACHABLE),
        (BootstrapTimedOut, ExitCode.UNREACHABLE),
        (BootstrapFailed, ExitCode.REFUSED),
        (BootstrapTokenRefused, ExitCode.NOT_USABLE),
        (ClusterInfoRefused, ExitCode.NOT_USABLE),
        (SourceRefused, ExitCode.NOT_USABLE),
        (OperationRefused, ExitCode.REFUSED),
        (NotAHub, ExitCode.REFUSED),
        (UnknownCluster, ExitCode.NOT_FOUND),
        (ExportRefused, ExitCode.REFUSED),
        (AuditLogUnreadable, ExitCode.NOT_USABLE),
        (InvalidInput, ExitCode.NOT_USABLE),
        (NotReady, ExitCode.UNREACHABLE),
        (NameTaken, ExitCode.REFUSED),
        (NotLoopback, ExitCode.NOT_USABLE),
        (InvalidSetting, ExitCode.NOT_USABLE),
        (DriverRefused, ExitCode.REFUSED),
        (ServiceUnreachable, ExitCode.UNREACHABLE),
        (CredentialRequestRefused, ExitCode.NOT_USABLE),
        (PkiError, ExitCode.NOT_USABLE),
        (ConfigError, ExitCode.NOT_USABLE),
        (Unreachable, ExitCode.UNREACHABLE),
        (Unauthorized, ExitCode.REFUSED),
        (Forbidden, ExitCode.REFUSED),
        (NotFound, ExitCode.NOT_FOUND),
    )


def _sentence(error: Exception) -> str:
    """Return what to print; a server's 401 contains no more than the status."""
    from watchword.kube.errors import Unauthorized

    return f"{CREDENTIAL_UNKNOWN} ({error}); get a new kubeconfig" if isinstance(error, Unauthorized) else str(error)
