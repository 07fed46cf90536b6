"""What stands between a command and AWS.

AwsError
├── InvalidName          a name, an ARN or an OIDC provider that AWS or EKS would not accept
├── LibraryMissing       the AWS libraries are not installed
├── WrongAccount         the credentials belong to another account than the role
├── ForeignRole          a role of that name belongs to another cluster
├── AwsRefused           AWS answered with an error
└── AwsUnreachable       AWS did not answer, or there are no credentials to ask it with
"""

from __future__ import annotations

from watchword.drivers.errors import DriverError


class AwsError(DriverError):
    """Base of everything this driver raises."""


class InvalidName(AwsError):
    """A value that names something in AWS is malformed; the message says what its form is."""


class LibraryMissing(AwsError):
    """The extra `aws` is not installed."""


class WrongAccount(AwsError):
    """The AWS credentials belong to another account or partition than the role."""


class ForeignRole(AwsError):
    """A role of that name exists and trusts the OIDC provider of another cluster."""


class AwsRefused(AwsError):
    """AWS answered with an error; `code` is the one of its API."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class AwsUnreachable(AwsError):
    """No request was answered; the message says what to check."""
