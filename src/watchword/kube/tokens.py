"""Service account tokens, asked for from the server that honours them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339
from watchword.kube.client import Client
from watchword.kube.errors import MalformedResponse
from watchword.kube.responses import decode


@dataclass(frozen=True, slots=True)
class IssuedToken:
    """A token and the instant it ends; the server may grant less than was asked for."""

    token: Sensitive[str]
    expires_at: datetime


async def request_token(
    client: Client,
    account: ObjectKey,
    *,
    expiration_seconds: int,
    audiences: Sequence[str] = (),
    uid: str = "",
    bound_to: Mapping[str, Any] | None = None,
) -> IssuedToken:
    """Return a token of a service account; with `uid`, of that very one only (`Conflict` otherwise).

    `bound_to` is a reference (apiVersion, kind, name, uid) to the object whose end also ends the token.
    """
    spec: Object = {"expirationSeconds": expiration_seconds, "audiences": list(audiences)}
    if bound_to is not None:
        spec["boundObjectRef"] = dict(bound_to)
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    if uid:
        body["metadata"] = {"uid": uid}
    path = SERVICE_ACCOUNTS.path(account, subresource="token")
    answer = decode(await client.request("POST", path, body=body))
    status = answer.get("status")
    token, expiry = (status.get("token"), status.get("expirationTimestamp")) if isinstance(status, dict) else ("", "")
    expires_at = parse_rfc3339(expiry) if isinstance(expiry, str) else None
    if not token or not isinstance(token, str) or expires_at is None:
        raise MalformedResponse("the server granted a token request without a token or its expiry")
    return IssuedToken(Sensitive(token), expires_at)
