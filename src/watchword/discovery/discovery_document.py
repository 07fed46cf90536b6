"""Where a discovery document comes from: a file, standard input, or an https address; never anything else."""

import asyncio
import re
from pathlib import Path
from typing import BinaryIO
from urllib.parse import SplitResult, parse_qsl, urljoin, urlsplit

from watchword.api.http import Request
from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.validation import validate_server_address
from watchword.discovery.errors import DiscoveryReason, SourceRefused
from watchword.kube.credentials import FixedCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError, KubeError
from watchword.kube.files import read_small_file
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.tls import Trust

DEFAULT_PORT = 6443


def parse_endpoint(text: str) -> str:
    """Return the https URL of `host:port`, `host` or an https URL; raise `SourceRefused` for others."""
    candidate = text if "://" in text else f"https://{_bracketed(text)}"
    complaint = validate_server_address(candidate)
    if complaint:
        raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, f"the API server address {complaint}: give HOST:PORT")
    parts = urlsplit(candidate)
    port = parts.port or DEFAULT_PORT
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return f"https://{host}:{port}{parts.path.rstrip('/')}"


def _bracketed(text: str) -> str:
    return f"[{text}]" if text.count(":") > 1 and not text.startswith("[") else text


DEADLINE_SECONDS = 10.0
MAXIMUM_REDIRECTS = 3
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


async def download(url: str, trust: Trust) -> bytes:
    """Return the document, at most 1 MiB; raises `SourceRefused`."""
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await _follow(url, trust)
    except (KubeError, TimeoutError) as cause:
        why = "it took too long" if isinstance(cause, TimeoutError) else str(cause)
        raise SourceRefused(
            DiscoveryReason.SOURCE_UNREADABLE,
            f"the discovery address cannot be read ({why}): check it with curl and use --discovery-file=-",
        ) from cause


async def _follow(url: str, trust: Trust) -> bytes:
    for _ in range(MAXIMUM_REDIRECTS + 1):
        address = _split(url)
        complaint = validate_server_address(f"{address.scheme}://{address.netloc}")
        if complaint:
            raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, f"the discovery address {complaint}")
        found = await _fetch(address, trust)
        if isinstance(found, bytes):
            return found
        url = choose_redirect(url, found)
    raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, "the discovery address redirects too often: give the final one")


async def _fetch(address: SplitResult, trust: Trust) -> bytes | str:
    endpoint = Endpoint(f"{address.scheme}://{address.netloc}", trust.ca, insecure=trust.insecure)
    transport = HttpsTransport(endpoint, FixedCredential())
    query = tuple(parse_qsl(address.query, keep_blank_values=True))
    try:
        async with transport.stream(Request("GET", address.path or "/", query=query)) as answer:
            if answer.status in _REDIRECTS:
                return answer.header("Location")
            if answer.status != 200 or answer.stream is None:
                raise SourceRefused(
                    DiscoveryReason.SOURCE_UNREADABLE,
                    f"the discovery address answered {answer.status}: check the address",
                )
            body = b""
            async for chunk in answer.stream:
                body = limit_document_size(body + chunk)
            return body
    finally:
        await transport.close()


def choose_redirect(url: str, location: str) -> str:
    """Return where a redirect leads if that is the same https host; raise `SourceRefused` otherwise."""
    target = urljoin(url, location)
    before, after = _split(url), _split(target)
    if not location or after.scheme != "https" or after.netloc != before.netloc:
        raise SourceRefused(
            DiscoveryReason.SOURCE_REFUSED,
            "the discovery address redirects to another host or away from https: give that one",
        )
    return target


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as cause:
        raise SourceRefused(DiscoveryReason.SOURCE_REFUSED, "the discovery address is not a URL") from cause


def limit_document_size(data: bytes) -> bytes:
    """Return the data, or refuse what is too large to be a discovery document."""
    if len(data) > MAX_DOCUMENT_BYTES:
        raise SourceRefused(
            DiscoveryReason.SOURCE_REFUSED, "the discovery document is larger than 1 MiB: is it the right one?"
        )
    return data


STANDARD_INPUT = "-"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:", re.ASCII)


async def read_document(source: str, standard_input: BinaryIO, trust: Trust | None = None) -> bytes:
    """Return the bytes of a discovery document, at most 1 MiB; raises `SourceRefused`.

    `trust` is for https addresses: by default in the system's roots.
    """
    if source == STANDARD_INPUT:
        return limit_document_size(standard_input.read(MAX_DOCUMENT_BYTES + 1))
    if not _SCHEME.match(source):
        try:
            return read_small_file(Path(source), "discovery file", limit=MAX_DOCUMENT_BYTES)
        except ConfigError as cause:
            raise SourceRefused(DiscoveryReason.SOURCE_UNREADABLE, str(cause)) from cause
    if not source.startswith("https://"):
        raise SourceRefused(
            DiscoveryReason.SOURCE_REFUSED,
            "a discovery address must begin with https://: give that, a file, or - for stdin",
        )
    return await download(source, trust or Trust())
