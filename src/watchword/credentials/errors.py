"""What a driver refuses.

DriverError
├── InvalidSetting          a flag, a file or an installed library of this program cannot be used
│   └── UnknownDriver       no driver of that name serves that purpose
├── DriverRefused           a check of the driver, or the service it uses, refuses what was asked for
├── ServiceUnreachable      the service that the driver uses did not answer
├── AmbiguousDriver         a cluster carries the annotations of more than one driver
├── NotGranted              an accepted cluster's proof does not work yet, or cannot
└── CredentialUnreadable    a Secret holds something else than the credential that it should

A driver derives its errors from these, so that commands know their exit code without knowing the driver.
"""


class DriverError(Exception):
    """Base of everything this package raises."""


class InvalidSetting(DriverError):
    """What was given cannot be used; nothing was changed."""


class DriverRefused(DriverError):
    """It must not be done as things stand; nothing was changed."""


class ServiceUnreachable(DriverError):
    """No request was answered; it can be tried again later."""


class UnknownDriver(InvalidSetting):
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
