"""The detached HS256 signature that a bootstrap token gives to a text."""

from __future__ import annotations

import base64
import hmac

import orjson

from watchword.api.sensitive import Sensitive


def sign_detached(content: bytes, *, key_id: str, secret: Sensitive[str]) -> str:
    """Return `header..signature`, byte for byte as Kubernetes writes it."""
    # Not made by a JOSE library: verifiers compare strings, so key order and spacing are part of the format,
    # and the 16-byte key is shorter than such libraries accept.
    header = _base64url(orjson.dumps({"alg": "HS256", "kid": key_id}))
    signing_input = b"%s.%s" % (header, _base64url(content))
    signature = hmac.digest(secret.reveal().encode(), signing_input, "sha256")
    return f"{header.decode()}..{_base64url(signature).decode()}"


def is_detached_signature(signature: str, content: bytes, *, key_id: str, secret: Sensitive[str]) -> bool:
    """Whether this is the one signature that the token gives to the content.

    The expected text is rebuilt and compared as a whole; the given header is not evaluated.
    """
    expected = sign_detached(content, key_id=key_id, secret=secret)
    return hmac.compare_digest(expected.encode(), signature.encode("utf-8", "surrogatepass"))


def _base64url(raw: bytes) -> bytes:
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
