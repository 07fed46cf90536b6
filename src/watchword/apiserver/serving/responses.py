"""Formats objects and lists as requested: complete, as metadata, or as a table."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object
from watchword.apiserver.errors import bad_request, not_acceptable
from watchword.apiserver.model import HandlerRequest, Now, ResourceKind
from watchword.apiserver.negotiation import ANSWERS, JSON, Media, choose_media, encoded_response, warning_headers
from watchword.apiserver.registry.object_storage import ObjectStorage
from watchword.apiserver.registry.pipeline import VerbResult, WriteRequest
from watchword.apiserver.registry.read import ListPage

_JSON_HEADER = ("Content-Type", JSON)
_WATCHED = (f"{JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


class ResponseBuilder(Struct, frozen=True):
    """Turns outcomes of verbs into responses."""

    objects: ObjectStorage
    now: Now

    def answer(
        self, request: HandlerRequest, kind: ResourceKind, answer: VerbResult, call: WriteRequest | None = None
    ) -> Response:
        media = choose_media(request)
        headers = warning_headers(call.warnings) if call is not None and call.warnings else ()
        if media.plain:
            return Response(answer.status, (_JSON_HEADER, *headers), answer.body)
        obj: Object = orjson.loads(answer.body)
        if media.transform and obj.get("kind") != "Status":
            obj = self._shown(request, kind, media)(obj)
        return encoded_response(media, obj, answer.status, headers)

    def watch_transform(
        self, request: HandlerRequest, kind: ResourceKind, media: Media
    ) -> Callable[[Object], Object] | None:
        """Return how watch events show objects; None for the objects themselves."""
        if media.type != JSON:
            raise not_acceptable(_WATCHED)
        if not media.transform:
            return None
        shown = self._shown(request, kind, media)
        return _columns_once(shown) if media.transform == "Table" else shown

    def page(self, request: HandlerRequest, kind: ResourceKind, page: ListPage) -> Response:
        media = choose_media(request)
        metadata = list_metadata(page, custom=kind.custom)
        if media.transform:
            items = [self.objects.decode(kind, record) for record in page.records]
            return encoded_response(media, self._transformed_list(request, kind, media, items, metadata))
        resource = kind.resource
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        body = b"".join([orjson.dumps(head)[:-1], b',"items":[', *self._items(kind, page), b"]}"])
        if media.plain:
            return Response(200, (_JSON_HEADER,), body)
        return encoded_response(media, orjson.loads(body))

    def _shown(self, request: HandlerRequest, kind: ResourceKind, media: Media) -> Callable[[Object], Object]:
        if media.transform == "Table":
            include = request.parameter("includeObject") or "Metadata"
            return lambda obj: table(kind, [obj], now=self.now(), include=include, version=media.version)
        if media.transform == "PartialObjectMetadata":
            return lambda obj: partial_metadata(obj, media.version)
        raise not_acceptable(ANSWERS)

    def _items(self, kind: ResourceKind, page: ListPage) -> Iterator[bytes | memoryview]:
        """Yield the items in pieces that are not copied before all are joined."""
        for number, record in enumerate(page.records):
            if number:
                yield b","
            yield from self.objects.item(kind, record)

    def _transformed_list(
        self, request: HandlerRequest, kind: ResourceKind, media: Media, items: list[Object], metadata: Object
    ) -> Object:
        if media.transform == "Table":
            include = request.parameter("includeObject") or "Metadata"
            shown = table(kind, items, now=self.now(), include=include, version=media.version)
            shown["metadata"] = metadata
            return shown
        if media.transform != "PartialObjectMetadataList":
            raise not_acceptable(ANSWERS)
        return {
            "kind": "PartialObjectMetadataList",
            "apiVersion": f"meta.k8s.io/{media.version}",
            "metadata": metadata,
            "items": [partial_metadata(item, media.version) for item in items],
        }


def _columns_once(shown: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """Show the columns in the first table of a watch only, as upstream does."""
    told: list[bool] = []

    def show(obj: Object) -> Object:
        table = shown(obj)
        if told:
            table["columnDefinitions"] = None
        else:
            told.append(True)
        return table

    return show


def list_metadata(page: ListPage, *, custom: bool = False) -> Object:
    """Return the metadata of a list; those of custom kinds always show where to go on, if only nowhere."""
    metadata: Object = {"resourceVersion": str(page.revision)}
    if page.continue_token or custom:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def partial_metadata(obj: Object, version: str = "v1") -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def table(
    kind: ResourceKind,
    objects: Sequence[Object],
    *,
    now: datetime,
    include: str = "Metadata",
    version: str = "v1",
) -> Object:
    """Return the objects as a Table; `include` chooses how much of each object a row contains.

    The caller adds the metadata of the list.
    """
    if include not in ("", "None", "Metadata", "Object"):
        detail = "must be 'Metadata', 'Object', 'None', or empty"
        raise bad_request(
            f'Unable to convert to Table as requested: includeObject: Invalid value: "{include}": {detail}'
        )
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {"resourceVersion": objects[0]["metadata"].get("resourceVersion", "")} if len(objects) == 1 else {},
        "columnDefinitions": [
            {name: getattr(column, name) for name in ("name", "type", "format", "description", "priority")}
            for column in kind.columns
        ],
        "rows": [
            {
                "cells": [column.cell(obj, now) for column in kind.columns],
                "object": {"None": None, "Object": obj}.get(include, partial_metadata(obj, version)),
            }
            for obj in objects
        ],
    }
