"""What a driver refuses.

DriverError
├── UnknownDriver        no driver of that name serves that purpose
├── AmbiguousDriver      a cluster carries the annotations of more than one driver
├── NotGranted           an accepted cluster's proof does not work yet, or cannot
└── CredentialUnreadable    a Secret holds something else than the credential that it should
"""

from __future__ import annotations


class DriverError(Exception):
    """Base of everything this package raises."""


class UnknownDriver(DriverError):
    """No driver of that name serves that purpose; the message lists those that do."""


class AmbiguousDriver(DriverError):
    """The annotations of a ManagedCluster name more than one driver; the message lists them."""


class NotGranted(DriverError):
    """An accepted cluster cannot use its proof yet; `reason` is for the condition, the message for people."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class CredentialUnreadable(DriverError):
    """The credential in a Secret cannot be read; the message contains the reason, and nothing of its content."""
