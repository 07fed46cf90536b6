"""The errors of the gRPC server, its clients and its events.

GrpcDriverError
├── MalformedEvent       bytes that are no event of this protocol
├── UnknownEventType     a data type, subresource or action that this protocol does not have
├── MalformedStatus      a refusal that contains no Status
├── RequestRefused       the server refuses what a client sent
└── TlsFilesUnusable     the certificate, key or client CA of the server cannot be used
"""

from typing import Any

import orjson

from watchword.api.meta import Object, mapping_at
from watchword.credentials.errors import DriverError, InvalidSetting
from watchword.kube.errors import ApiStatusError, error_from_status


class GrpcDriverError(DriverError):
    """Base of everything this driver raises."""


class MalformedEvent(GrpcDriverError):
    """The bytes are no event of this protocol; the message says what is wrong, and contains no data."""


class UnknownEventType(GrpcDriverError):
    """The type of an event or a subscription is unknown: it is refused, never guessed."""


class MalformedStatus(GrpcDriverError):
    """The message of a gRPC error contains no Status object."""


class TlsFilesUnusable(GrpcDriverError, InvalidSetting):
    """The files of the server do not contain what they should; the message names them."""


class RequestRefused(GrpcDriverError):
    """The server refuses a request; `code` is the HTTP code of the Status that the client receives."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


_KEY = "ErrStatus"
_LONGEST = 2000  # gRPC clients refuse metadata of more than 8 KiB, and percent-encoding triples some characters


def encode_status(error: ApiStatusError) -> str:
    """Return the message of the gRPC error that a refusal becomes: reason, code and text are kept.

    Causes are left out, and the text is cut, where the whole would not fit into the metadata of a response.
    """
    encoded = _encode(error, str(error), {**mapping_at(error.status, "details")})
    return encoded if len(encoded) <= _LONGEST else _encode(error, str(error)[: _LONGEST // 2], {})


def _encode(error: ApiStatusError, message: str, details: Object) -> str:
    if error.retry_after is not None:
        details = {**details, "retryAfterSeconds": int(error.retry_after)}
    status: Object = {"metadata": {}, "status": "Failure", "message": message}
    status |= {"reason": error.reason, "code": error.code, **({"details": details} if details else {})}
    return orjson.dumps({_KEY: status}).decode("utf-8", errors="replace")


def decode_status(message: str) -> ApiStatusError:
    """Return the refusal in the message of a gRPC error; `MalformedStatus` when it contains none."""
    try:
        parsed: Any = orjson.loads(message)
    except orjson.JSONDecodeError:
        parsed = None
    status = mapping_at(parsed, _KEY)
    code = status.get("code")
    if not isinstance(code, int) or not 400 <= code < 600:
        raise MalformedStatus("the message of the gRPC error is not a Status")
    return error_from_status(code, status)
