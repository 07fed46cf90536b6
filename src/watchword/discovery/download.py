"""Downloading a discovery document over https: one host, no credentials, little patience."""

from __future__ import annotations

from urllib.parse import SplitResult, urljoin, urlsplit

from watchword._http import aiohttp
from watchword.discovery.addresses import judge_server
from watchword.discovery.errors import Reason, SourceRefused
from watchword.discovery.sources import capped
from watchword.kube.tls import Trust, make_context

DEADLINE_SECONDS = 10.0
MAXIMUM_REDIRECTS = 3


async def download(url: str, trust: Trust) -> bytes:
    """Return the document, at most 1 MiB; raises `SourceRefused`."""
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=make_context(trust, None)),
        timeout=aiohttp.ClientTimeout(total=DEADLINE_SECONDS),
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,  # neither .netrc nor a proxy's password goes to an address somebody typed
    )
    try:
        async with session:
            return await _follow(session, url)
    except (aiohttp.ClientError, TimeoutError, OSError) as cause:
        why = "it took too long" if isinstance(cause, TimeoutError) else type(cause).__name__
        raise SourceRefused(
            Reason.SOURCE_UNREADABLE,
            f"the discovery address cannot be read ({why}): check it with curl and use --discovery-file=-",
        ) from cause


async def _follow(session: aiohttp.ClientSession, url: str) -> bytes:
    for _ in range(MAXIMUM_REDIRECTS + 1):
        _check_address(url)
        async with session.get(url, allow_redirects=False) as answer:
            if answer.status in {301, 302, 303, 307, 308}:
                url = choose_redirect(url, answer.headers.get("Location", ""))
                continue
            if answer.status != 200:
                raise SourceRefused(
                    Reason.SOURCE_UNREADABLE, f"the discovery address answered {answer.status}: check the address"
                )
            body = b""
            async for chunk in answer.content.iter_any():
                body = capped(body + chunk)
            return body
    raise SourceRefused(Reason.SOURCE_REFUSED, "the discovery address redirects too often: give the final one")


def choose_redirect(url: str, location: str) -> str:
    """Return where a redirect leads if that is the same https host; raise `SourceRefused` otherwise."""
    target = urljoin(url, location)
    before, after = _split(url), _split(target)
    if not location or after.scheme != "https" or after.netloc != before.netloc:
        raise SourceRefused(
            Reason.SOURCE_REFUSED, "the discovery address redirects to another host or away from https: give that one"
        )
    return target


def _check_address(url: str) -> None:
    parts = _split(url)
    complaint = judge_server(f"{parts.scheme}://{parts.netloc}")
    if complaint:
        raise SourceRefused(Reason.SOURCE_REFUSED, f"the discovery address {complaint}")


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError as cause:
        raise SourceRefused(Reason.SOURCE_REFUSED, "the discovery address is not a URL") from cause
