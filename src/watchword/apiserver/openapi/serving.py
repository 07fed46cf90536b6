"""Serves `/openapi/v3`, the documents below it, and `/openapi/v2`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.apiserver.discovery.documents import group_names, versions_of
from watchword.apiserver.discovery.serving import etag_of
from watchword.apiserver.errors import not_acceptable
from watchword.apiserver.model import HandlerRequest, ResourceKind
from watchword.apiserver.openapi.documents import document, document_v2

JSON = "application/json"
_NOT_FOUND = Response(404, (("Content-Type", "text/plain; charset=utf-8"),), b"404 page not found\n")


class CachedDocument(Struct, frozen=True):
    """One document, and the kinds it was drawn from."""

    kinds: tuple[ResourceKind, ...]
    body: bytes
    etag: str

    @property
    def hash(self) -> str:
        """The hash in the index."""
        return self.etag.strip('"')


class OpenApiHandler:
    """Serves documents; each is drawn once and again only when one of its kinds changes."""

    def __init__(self, kinds: Callable[[], Sequence[ResourceKind]]) -> None:
        self._kinds = kinds
        self._drawn: dict[str, CachedDocument] = {}

    async def handle(self, request: HandlerRequest) -> Response:
        """Handle a request below `/openapi`."""
        _require_json(request.header("accept"))
        path = request.info.path.strip("/")
        if path == "openapi/v3":
            return _answer(request, self._index(), media="text/plain; charset=utf-8")  # as upstream labels it
        if path == "openapi/v2":
            return _answer(request, self._draw("v2", tuple(self._kinds()), document_v2))
        place = path.removeprefix("openapi/v3/")
        kinds = self._places().get(place)
        if kinds is None or place == path:
            return _NOT_FOUND
        return _hashed_answer(request, self._draw(place, kinds, document), place)

    def index(self) -> dict[str, str]:
        """Return the URL of every document by its place."""
        places = self._places()
        drawn = {place: self._draw(place, kinds, document) for place, kinds in places.items()}
        return {place: f"/openapi/v3/{place}?hash={each.hash}" for place, each in drawn.items()}

    def _index(self) -> CachedDocument:
        paths = {place: {"serverRelativeURL": url} for place, url in self.index().items()}
        body = orjson.dumps({"paths": paths})
        return CachedDocument((), body, etag_of(body))

    def _places(self) -> dict[str, tuple[ResourceKind, ...]]:
        kinds = self._kinds()
        found: dict[str, tuple[ResourceKind, ...]] = {}
        for group in group_names(kinds):
            for version in versions_of(kinds, group):
                served = [kind for kind in kinds if (kind.resource.group, kind.resource.version) == (group, version)]
                found[f"apis/{group}/{version}" if group else f"api/{version}"] = tuple(served)
        return found

    def _draw(
        self,
        place: str,
        kinds: tuple[ResourceKind, ...],
        draw: Callable[[Sequence[ResourceKind]], object],
    ) -> CachedDocument:
        held = self._drawn.get(place)
        if held is None or not _is_same(held.kinds, kinds):
            body = orjson.dumps(draw(kinds))
            held = self._drawn[place] = CachedDocument(kinds, body, etag_of(body))
        return held


def _is_same(held: tuple[ResourceKind, ...], wanted: tuple[ResourceKind, ...]) -> bool:
    # Kinds are compared by identity: a changed CRD is served as a new kind.
    return len(held) == len(wanted) and all(a is b for a, b in zip(held, wanted, strict=True))


def _answer(request: HandlerRequest, drawn: CachedDocument, *extra: tuple[str, str], media: str = JSON) -> Response:
    headers = (("ETag", drawn.etag), ("Vary", "Accept"), *extra)
    if request.header("if-none-match") == drawn.etag:
        return Response(304, headers)
    return Response(200, (("Content-Type", media), *headers), drawn.body)


def _hashed_answer(request: HandlerRequest, drawn: CachedDocument, place: str) -> Response:
    wanted = request.parameter("hash")
    if not wanted:
        return _answer(request, drawn)
    if wanted == drawn.hash:
        return _answer(request, drawn, ("Cache-Control", "public, immutable"))
    return Response(301, (("Location", f"/openapi/v3/{place}?hash={drawn.hash}"),))


def _require_json(accept: str) -> None:
    clauses = [clause.partition(";")[0].strip() for clause in accept.split(",")]
    if accept and not {JSON, "application/*", "*/*"} & set(clauses):
        raise not_acceptable((JSON,))
