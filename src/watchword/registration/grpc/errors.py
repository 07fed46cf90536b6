"""What stands between an agent and the gRPC server of its hub.

GrpcDriverError
├── MalformedEvent       bytes that are no event of this protocol
├── UnknownEventType     a data type, subresource or action that this protocol does not have
├── MalformedStatus      a refusal that contains no Status
└── TlsFilesUnusable     the certificate, key or client CA of the server cannot be used
"""

from __future__ import annotations

from watchword.registration.errors import DriverError


class GrpcDriverError(DriverError):
    """Base of everything this driver raises."""


class MalformedEvent(GrpcDriverError):
    """The bytes are no event of this protocol; the message says what is wrong, and contains no data."""


class UnknownEventType(GrpcDriverError):
    """The type of an event or a subscription is unknown: it is refused, never guessed."""


class MalformedStatus(GrpcDriverError):
    """The message of a gRPC error contains no Status object."""


class TlsFilesUnusable(GrpcDriverError):
    """The files of the server do not contain what they should; the message names them."""
