"""Verifies AWS Signature Version 4: rebuilds the signature of a request and compares."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

from msgspec import Struct
from tests.emulators.aws.errors import AwsFault

from watchword.api.http import Request
from watchword.api.sensitive import Sensitive

ALGORITHM = "AWS4-HMAC-SHA256"
CLOCK_SKEW = timedelta(minutes=5)
PRESIGNED_LIFETIME = timedelta(minutes=15)
"""How long STS accepts a presigned GetCallerIdentity, whatever `X-Amz-Expires` says."""

_HEADER = re.compile(
    re.escape(ALGORITHM) + r" Credential=(?P<credential>[^, ]+), ?SignedHeaders=(?P<headers>[a-z0-9;-]+), ?"
    r"Signature=(?P<signature>[0-9a-f]{64})",
    re.ASCII,
)
_SIGNATURE = re.compile(r"[0-9a-f]{64}", re.ASCII)
_SCOPE = re.compile(
    r"(?P<key>[A-Z0-9]{16,128})/(?P<day>[0-9]{8})/(?P<region>[a-z0-9-]+)/(?P<service>[a-z0-9-]+)/aws4_request"
)


class RequestSignature(Struct, frozen=True):
    """What a request says about its own signature; nothing of it is verified."""

    key_id: str
    region: str
    service: str
    time: datetime
    signed_headers: tuple[str, ...]
    signature: str
    session_token: str = ""
    presigned: bool = False

    @property
    def scope(self) -> str:
        """Day, region and service, as they are signed."""
        return f"{self.time:%Y%m%d}/{self.region}/{self.service}/aws4_request"


def read_signature(request: Request) -> RequestSignature | None:
    """Return the signature of a request, None when it has none; `AwsFault` when it is malformed."""
    if request.parameter("X-Amz-Signature"):
        return _read_query(request)
    header = request.header("Authorization")
    return _read_header(request, header) if header else None


def verify_signature(
    request: Request,
    found: RequestSignature,
    secret: Sensitive[str],
    *,
    now: datetime,
    lifetime: timedelta = CLOCK_SKEW,
) -> None:
    """Raise `AwsFault` unless this secret signed exactly this request, at most `lifetime` ago."""
    if not -CLOCK_SKEW <= now - found.time < lifetime:
        raise AwsFault(
            "SignatureDoesNotMatch", f"Signature expired or not yet current: {found.time:%Y%m%dT%H%M%SZ}", 403
        )
    if "host" not in found.signed_headers:
        raise AwsFault("SignatureDoesNotMatch", "The host header is not signed", 403)
    expected = expected_signature(request, found, secret)
    if not hmac.compare_digest(expected, found.signature):
        message = "The request signature we calculated does not match the signature you provided"
        raise AwsFault("SignatureDoesNotMatch", message, 403)


def expected_signature(request: Request, found: RequestSignature, secret: Sensitive[str]) -> str:
    """Return the signature that the owner of this secret would have made."""
    canonical = hashlib.sha256(canonical_request(request, found.signed_headers).encode()).hexdigest()
    text = "\n".join((ALGORITHM, f"{found.time:%Y%m%dT%H%M%SZ}", found.scope, canonical))
    key = f"AWS4{secret.reveal()}".encode()
    for part in found.scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def canonical_request(request: Request, signed_headers: tuple[str, ...]) -> str:
    """Return the text whose digest is signed."""
    query = sorted((_encode(k), _encode(v)) for k, v in request.query if k != "X-Amz-Signature")
    return "\n".join(
        (
            request.method,
            quote(request.path or "/", safe="/~"),  # encoded once more than it was sent: every service but S3
            "&".join(f"{name}={value}" for name, value in query),
            *(f"{name}:{' '.join(request.header(name).split())}" for name in signed_headers),
            "",
            ";".join(signed_headers),
            hashlib.sha256(request.body).hexdigest(),
        )
    )


def _read_header(request: Request, header: str) -> RequestSignature:
    match = _HEADER.fullmatch(header)
    if match is None:
        raise AwsFault("IncompleteSignature", "The Authorization header is not of Signature Version 4", 403)
    headers = tuple(match["headers"].split(";"))
    parts = {"stamp": request.header("X-Amz-Date"), "token": request.header("X-Amz-Security-Token")}
    return _signature(match["credential"], headers, match["signature"], parts)


def _read_query(request: Request) -> RequestSignature:
    names = [name for name, _ in request.query]
    if len(names) != len(set(names)) or request.parameter("X-Amz-Algorithm") != ALGORITHM:
        raise AwsFault("IncompleteSignature", "The query is not signed by Signature Version 4", 403)
    signature = request.parameter("X-Amz-Signature")
    if _SIGNATURE.fullmatch(signature) is None:
        raise AwsFault("IncompleteSignature", "The signature is malformed", 403)
    headers = tuple(request.parameter("X-Amz-SignedHeaders").split(";"))
    parts = {"stamp": request.parameter("X-Amz-Date"), "token": request.parameter("X-Amz-Security-Token"), "query": "1"}
    return _signature(request.parameter("X-Amz-Credential"), headers, signature, parts)


def _signature(credential: str, headers: tuple[str, ...], signature: str, parts: Mapping[str, str]) -> RequestSignature:
    scope = _SCOPE.fullmatch(credential)
    try:
        time = datetime.strptime(parts["stamp"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as cause:
        raise AwsFault("IncompleteSignature", "X-Amz-Date is malformed", 403) from cause
    if scope is None or scope["day"] != f"{time:%Y%m%d}":
        raise AwsFault("IncompleteSignature", "The credential scope is malformed", 403)
    return RequestSignature(
        scope["key"], scope["region"], scope["service"], time, headers, signature, parts["token"], "query" in parts
    )


def _encode(text: str) -> str:
    return quote(text, safe="-_.~")
