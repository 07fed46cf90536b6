"""Turns an HTTP response into an object, or into the typed error that it describes."""

from __future__ import annotations

from typing import Any

import orjson

from watchword.api.http import Response
from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError, MalformedResponse, error_from_status
from watchword.kube.retry import retry_after


def decode(response: Response) -> Object:
    """Return the object in a response, or raise the error that it describes."""
    if not 200 <= response.status < 300:
        raise refusal(response)
    parsed = _parse(response.body)
    if isinstance(parsed, dict):
        return parsed
    raise MalformedResponse(
        f"{_describe_body(response)}: is this address a Kubernetes API server, or a proxy in front of it?"
    )


def refusal(response: Response) -> ApiStatusError | MalformedResponse:
    """Return the error that a response outside 2xx describes."""
    if response.status < 400:
        return MalformedResponse(
            f"the server answered {response.status}, a redirect that is not followed: use the API server's own address"
        )
    parsed = _parse(response.body)
    if not isinstance(parsed, dict):
        parsed = {"message": f"the server answered {response.status} without a Status ({_describe_body(response)})"}
    error = error_from_status(response.status, parsed)
    if error.retry_after is None:
        error.retry_after = retry_after(response)
    return error


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def _describe_body(response: Response) -> str:
    if not response.body:
        return "the response is empty"
    kind = response.header("Content-Type").partition(";")[0].strip()
    if "html" in kind or response.body.lstrip()[:1] == b"<":
        return "the response is HTML"
    return "the response is not a JSON object"
