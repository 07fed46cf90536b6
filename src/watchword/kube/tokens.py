"""Requests service account tokens from the API server."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.meta import Object, ObjectKey, rows_at
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339
from watchword.kube.client import Client, object_path
from watchword.kube.errors import ApiStatusError, MalformedResponse, error_from_status
from watchword.kube.request_sender import decode

JWKS_PATH, JWKS_TYPE = "/openid/v1/jwks", "application/jwk-set+json"


async def read_published_key_ids(client: Client) -> frozenset[str]:
    """Return the `kid` of every published key; raises `KubeError`, also when the answer is no key set."""
    try:
        document = orjson.loads(await client.accepting(JWKS_TYPE).read(JWKS_PATH))
    except orjson.JSONDecodeError as cause:
        raise MalformedResponse("the key set of the server is not JSON") from cause
    return frozenset(str(row["kid"]) for row in rows_at(document, "keys") if "kid" in row)


class IssuedToken(Struct, frozen=True):
    """A token and its expiry; the server may grant a shorter lifetime than requested."""

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
    """Return a token of a service account; with `uid`, only of the account with that UID (`Conflict` otherwise).

    Servers before Kubernetes 1.34 ignore the UID: callers compare the one in the token and raise `account_replaced`.

    `bound_to` references the object (apiVersion, kind, name, uid) whose deletion invalidates the token.
    """
    spec: Object = {"expirationSeconds": expiration_seconds, "audiences": list(audiences)}
    if bound_to is not None:
        spec["boundObjectRef"] = dict(bound_to)
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    if uid:
        body["metadata"] = {"uid": uid}
    path = object_path(SERVICE_ACCOUNTS, account, "token")
    answer = decode(await client.request("POST", path, body=body))
    status = answer.get("status")
    token, expiry = (status.get("token"), status.get("expirationTimestamp")) if isinstance(status, dict) else ("", "")
    expires_at = parse_rfc3339(expiry) if isinstance(expiry, str) else None
    if not token or not isinstance(token, str) or expires_at is None:
        raise MalformedResponse("the server granted a token request without a token or its expiry")
    return IssuedToken(Sensitive(token), expires_at)


def account_replaced(account: ObjectKey, *, wanted: str, found: str) -> ApiStatusError:
    """Return the `Conflict` for a token of an account that was created again: UIDs that were wanted and found."""
    message = f"ServiceAccount {account} was created again: its token is for UID {found}, and UID {wanted} was wanted"
    return error_from_status(409, {"reason": "Conflict", "message": message})
