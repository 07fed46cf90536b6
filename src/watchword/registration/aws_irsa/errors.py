"""The errors of settings, roles and requests at AWS.

AwsError
├── InvalidName          a name, an ARN or an OIDC provider that AWS or EKS would not accept
├── LibraryMissing       the AWS libraries are not installed
├── WrongAccount         the credentials belong to another account than the role
├── ForeignRole          a role or an access entry of that name belongs to another cluster
├── IdentityMissing      what was to be made outside differs from what the cluster needs, or does not exist
├── RoleTaken            the role belongs to another cluster, or to an earlier acceptance
├── StillAccepted        the cluster has rights on the hub, which go before its role
├── AwsAuthUnreadable    the ConfigMap aws-auth is missing or cannot be read
├── AwsRefused           AWS answered with an error
└── AwsUnreachable       AWS did not answer, or there are no credentials to ask it with
"""

from watchword.credentials.errors import DriverError, DriverRefused, InvalidSetting, ServiceUnreachable


class AwsError(DriverError):
    """Base of everything this driver raises."""


class InvalidName(AwsError, InvalidSetting):
    """A value that names something in AWS is malformed; the message says what its form is."""


class LibraryMissing(AwsError, InvalidSetting):
    """The extra `aws` is not installed."""


class WrongAccount(AwsError, DriverRefused):
    """The AWS credentials belong to another account or partition than the role."""


class ForeignRole(AwsError, DriverRefused):
    """A role or an access entry of that name exists and belongs to another cluster."""


class IdentityMissing(AwsError):
    """The role or its mapping is not as the cluster needs it, and this hub only verifies them."""


class RoleTaken(AwsError, DriverRefused):
    """Another cluster has the role, or an earlier acceptance that is not deleted yet; the message names it."""


class StillAccepted(AwsError, DriverRefused):
    """The hub has not taken the rights of the cluster."""


class AwsAuthUnreadable(AwsError):
    """The ConfigMap `aws-auth` is missing or is no list of entries; it is left as it is."""


ABSENCE_CODES = frozenset({"NoSuchEntity", "ResourceNotFoundException"})


class AwsRefused(AwsError):
    """AWS answered with an error; `code` is the one of its API."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def is_absence(self) -> bool:
        return self.code in ABSENCE_CODES


class AwsUnreachable(AwsError, ServiceUnreachable):
    """No request was answered; the message says what to check."""
