"""How AWS refuses: the error codes of its services, as their SDKs read them."""

from __future__ import annotations

from xml.sax.saxutils import escape

import orjson

from watchword.api.http import Response

JSON_SERVICES = frozenset({"eks"})


class AwsFault(Exception):
    """A request that AWS refuses; never quotes a secret."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def denied(action: str, principal: str, resource: str) -> AwsFault:
    """Return the refusal of an action that policies do not allow."""
    message = f"User: {principal} is not authorized to perform: {action} on resource: {resource}"
    return AwsFault("AccessDeniedException" if action.startswith("eks:") else "AccessDenied", message, 403)


def fault_response(service: str, fault: AwsFault) -> Response:
    """Return a refusal in the protocol of the service: REST with JSON, or the query protocol with XML."""
    if service in JSON_SERVICES:
        headers = (("Content-Type", "application/json"), ("x-amzn-ErrorType", fault.code))
        return Response(fault.status, headers, orjson.dumps({"message": str(fault)}))
    text = (
        f"<ErrorResponse><Error><Type>Sender</Type><Code>{escape(fault.code)}</Code>"
        f"<Message>{escape(str(fault))}</Message></Error><RequestId>00000000</RequestId></ErrorResponse>"
    )
    return Response(fault.status, (("Content-Type", "text/xml"),), text.encode())
