"""Reads which keys a server publishes for checking its service account tokens."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from watchword.kube.client import Client
from watchword.kube.errors import MalformedResponse

JWKS_PATH, JWKS_TYPE = "/openid/v1/jwks", "application/jwk-set+json"


async def read_published_key_ids(client: Client) -> frozenset[str]:
    """Return the `kid` of every published key; raises `KubeError`, also when the answer is no key set."""
    try:
        document = orjson.loads(await client.accepting(JWKS_TYPE).read(JWKS_PATH))
    except orjson.JSONDecodeError as cause:
        raise MalformedResponse("the key set of the server is not JSON") from cause
    return published_key_ids(document) if isinstance(document, dict) else frozenset()


def published_key_ids(document: Mapping[str, object]) -> frozenset[str]:
    """Return the `kid` of every key in a JSON Web Key Set."""
    rows = document.get("keys")
    return frozenset(str(row["kid"]) for row in rows if "kid" in row) if isinstance(rows, list) else frozenset()
