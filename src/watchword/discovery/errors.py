"""The errors of discovery and of TLS bootstrap.

DiscoveryError                  carries a `DiscoveryReason` and ends with what to do next
├── BootstrapTokenRefused                a token that is malformed, weak, or bound to others
├── ClusterInfoRefused          a ClusterInfo that holds anything but one cluster; names the field
├── SourceRefused               a discovery file or URL that must not or cannot be read
├── NotTrusted                  signature, pin or second read disagree: a man in the middle is possible
├── DiscoveryTimedOut                 server, ConfigMap or signature did not appear in time
└── BootstrapFailed             the certificate was denied, failed, or not the one asked for
    └── BootstrapTimedOut           it did not come in time
"""

from enum import StrEnum


class DiscoveryReason(StrEnum):
    """Why discovery or bootstrap stopped; for programs, stable across releases."""

    TOKEN_MALFORMED = "TokenMalformed"  # noqa: S105 - a reason
    TOKEN_WEAK = "TokenWeak"  # noqa: S105 - a reason
    TOKEN_EXISTS = "TokenExists"  # noqa: S105 - a reason
    TOKEN_NOT_FOUND = "TokenNotFound"  # noqa: S105 - a reason
    CLUSTER_INFO_MALFORMED = "ClusterInfoMalformed"
    SOURCE_REFUSED = "SourceRefused"
    SOURCE_UNREADABLE = "SourceUnreadable"
    PIN_REQUIRED = "PinRequired"
    PIN_MISMATCH = "PinMismatch"
    SIGNATURE_WRONG = "SignatureWrong"
    CHANGED_IN_BETWEEN = "ChangedInBetween"
    SERVER_UNREACHABLE = "ServerUnreachable"
    SERVER_NOT_TRUSTED = "ServerNotTrusted"
    CLUSTER_INFO_MISSING = "ClusterInfoMissing"
    SIGNATURE_MISSING = "SignatureMissing"
    REQUEST_REFUSED = "RequestRefused"
    REQUEST_DENIED = "RequestDenied"
    REQUEST_FAILED = "RequestFailed"
    REQUEST_GONE = "RequestGone"
    NOT_APPROVED = "NotApproved"
    NOT_ISSUED = "NotIssued"
    CERTIFICATE_WRONG = "CertificateWrong"


class DiscoveryError(Exception):
    """Base of the errors of this package; the message ends with the next step."""

    def __init__(self, reason: DiscoveryReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class BootstrapTokenRefused(DiscoveryError):
    """The token cannot be used; the message never holds its secret."""


class ClusterInfoRefused(DiscoveryError):
    """The document is not a ClusterInfo; `field` names what is wrong in it."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(DiscoveryReason.CLUSTER_INFO_MALFORMED, f"cluster-info is refused: {field}: {message}")
        self.field = field


class SourceRefused(DiscoveryError):
    """The discovery file or URL is not read."""


class NotTrusted(DiscoveryError):
    """The server could not be verified as the cluster; nothing secret was sent to it."""


class DiscoveryTimedOut(DiscoveryError):
    """What discovery waits for did not appear in time."""


class BootstrapFailed(DiscoveryError):
    """The TLS bootstrap yielded no certificate."""


class BootstrapTimedOut(BootstrapFailed):
    """No certificate came in time; the request stands, and a second try continues the first."""
