"""What a failure means to the person or script that ran the command: a sentence and an exit code."""

from __future__ import annotations

import sys
from dataclasses import dataclass

FAILED = 1
NOT_USABLE = 2  # as for a wrong flag: what was given cannot be used
UNREACHABLE = 3
REFUSED = 4
BUG = 70  # EX_SOFTWARE of sysexits.h


@dataclass(frozen=True, slots=True)
class Failure:
    """One sentence for people, one number for scripts."""

    sentence: str
    exit_code: int


# The first row that matches decides, so a row stands before those of its base classes. Names instead of
# classes: a room that was never imported cannot have raised, and must not be imported for this table.
EXIT_CODES: tuple[tuple[str, str, int], ...] = (
    ("watchword.discovery.errors", "NotTrusted", REFUSED),
    ("watchword.discovery.errors", "DiscoveryTimedOut", UNREACHABLE),
    ("watchword.discovery.errors", "BootstrapTimedOut", UNREACHABLE),
    ("watchword.discovery.errors", "BootstrapFailed", REFUSED),
    ("watchword.discovery.errors", "BootstrapTokenRefused", NOT_USABLE),
    ("watchword.discovery.errors", "ClusterInfoRefused", NOT_USABLE),
    ("watchword.discovery.errors", "SourceRefused", NOT_USABLE),
    ("watchword.admin.errors", "OperationRefused", REFUSED),
    ("watchword.admin.errors", "InvalidInput", NOT_USABLE),
    ("watchword.admin.errors", "NotReady", UNREACHABLE),
    ("watchword.agent.errors", "NameTaken", REFUSED),
    ("watchword.drivers.errors", "UnknownDriver", NOT_USABLE),
    ("watchword.drivers.aws_irsa.errors", "InvalidName", NOT_USABLE),
    ("watchword.drivers.aws_irsa.errors", "LibraryMissing", NOT_USABLE),
    ("watchword.drivers.aws_irsa.errors", "AwsUnreachable", UNREACHABLE),
    ("watchword.drivers.aws_irsa.errors", "AwsError", REFUSED),
    ("watchword.pullsecrets.errors", "CredentialRequestRefused", NOT_USABLE),
    ("watchword.pki.errors", "PkiError", NOT_USABLE),
    ("watchword.kube.errors", "ConfigError", NOT_USABLE),
    ("watchword.kube.errors", "Unreachable", UNREACHABLE),
    ("watchword.kube.errors", "Unauthorized", REFUSED),
    ("watchword.kube.errors", "Forbidden", REFUSED),
)

CREDENTIAL_UNKNOWN = "the server does not know this credential: it may have expired, or belong to another cluster"

OURS = "watchword."


def decide_failure(error: Exception) -> Failure:
    """Decide what to tell about an exception that reached the command line."""
    if not _is_own_error(error):
        if isinstance(error, OSError) and error.strerror:
            where = f"{error.filename}: " if error.filename else ""
            return Failure(f"{where}{error.strerror.lower()}", FAILED)
        # The message of a foreign exception may quote anything, a secret included: only its type is shown.
        return Failure(
            f"stopped by an unexpected {type(error).__name__}; run again with -vv and report what it prints", BUG
        )
    for module, name, exit_code in EXIT_CODES:
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(error, kind):
            return Failure(_sentence(error, name), exit_code)
    return Failure(str(error), FAILED)


def _sentence(error: Exception, kind: str) -> str:
    """Return what to tell; servers say nothing but the word when they do not know who asks."""
    return f"{CREDENTIAL_UNKNOWN} ({error}); get a new kubeconfig" if kind == "Unauthorized" else str(error)


def _is_own_error(error: Exception) -> bool:
    """Whether one of our rooms raised it on purpose: those errors are written for people."""
    return any(kind.__module__.startswith(OURS) for kind in type(error).__mro__)
