"""Serves the verbs of stored kinds: reads the request, calls the verb, shows the outcome."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.access.rbac import Authorizer, require
from watchword.apiserver.serving import errors, negotiation
from watchword.apiserver.serving.bodies import (
    JSON,
    decode,
    decode_body,
    duplicate_fields,
    media_type,
    require_type_meta,
)
from watchword.apiserver.serving.delete import read_delete_options
from watchword.apiserver.serving.field_errors import invalid as invalid_field
from watchword.apiserver.serving.model import HandlerRequest, Now, ResourceKind
from watchword.apiserver.serving.object_storage import ObjectStorage
from watchword.apiserver.serving.patch import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH, patch_type
from watchword.apiserver.serving.pipeline import (
    VerbResult,
    WriteRequest,
    prune_and_default,
    read_list_options,
    read_write_request,
)
from watchword.apiserver.serving.read import ListPage
from watchword.apiserver.serving.registry import Verbs
from watchword.apiserver.serving.write import UpdateTarget

_JSON_HEADER = ("Content-Type", JSON)
_WATCHED = (f"{JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


class ResponseBuilder(Struct, frozen=True):
    """Turns outcomes of verbs into responses."""

    objects: ObjectStorage
    now: Now

    def answer(
        self, request: HandlerRequest, kind: ResourceKind, answer: VerbResult, call: WriteRequest | None = None
    ) -> Response:
        media = negotiation.choose_media(request)
        headers = negotiation.warning_headers(call.warnings) if call is not None and call.warnings else ()
        if media.plain:
            return Response(answer.status, (_JSON_HEADER, *headers), answer.body)
        obj: Object = orjson.loads(answer.body)
        if media.transform and obj.get("kind") != "Status":
            obj = self._shown(request, kind, media)(obj)
        return negotiation.encoded_response(media, obj, answer.status, headers)

    def watch_transform(
        self, request: HandlerRequest, kind: ResourceKind, media: negotiation.Media
    ) -> Callable[[Object], Object] | None:
        """Return how watch events show objects; None for the objects themselves."""
        if media.type != JSON:
            raise errors.not_acceptable(_WATCHED)
        if not media.transform:
            return None
        shown = self._shown(request, kind, media)
        return _columns_once(shown) if media.transform == "Table" else shown

    def page(self, request: HandlerRequest, kind: ResourceKind, page: ListPage) -> Response:
        media = negotiation.choose_media(request)
        metadata = list_metadata(page, custom=kind.custom)
        if media.transform:
            items = [self.objects.decode(kind, record) for record in page.records]
            return negotiation.encoded_response(media, self._transformed_list(request, kind, media, items, metadata))
        resource = kind.resource
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        body = b"".join([orjson.dumps(head)[:-1], b',"items":[', *self._items(kind, page), b"]}"])
        if media.plain:
            return Response(200, (_JSON_HEADER,), body)
        return negotiation.encoded_response(media, orjson.loads(body))

    def _shown(
        self, request: HandlerRequest, kind: ResourceKind, media: negotiation.Media
    ) -> Callable[[Object], Object]:
        if media.transform == "Table":
            include = request.parameter("includeObject") or "Metadata"
            return lambda obj: table(kind, [obj], now=self.now(), include=include, version=media.version)
        if media.transform == "PartialObjectMetadata":
            return lambda obj: partial_metadata(obj, media.version)
        raise errors.not_acceptable(negotiation.ANSWERS)

    def _items(self, kind: ResourceKind, page: ListPage) -> Iterator[bytes | memoryview]:
        """Yield the items in pieces that are not copied before all are joined."""
        for number, record in enumerate(page.records):
            if number:
                yield b","
            yield from self.objects.item(kind, record)

    def _transformed_list(
        self,
        request: HandlerRequest,
        kind: ResourceKind,
        media: negotiation.Media,
        items: list[Object],
        metadata: Object,
    ) -> Object:
        if media.transform == "Table":
            include = request.parameter("includeObject") or "Metadata"
            shown = table(kind, items, now=self.now(), include=include, version=media.version)
            shown["metadata"] = metadata
            return shown
        if media.transform != "PartialObjectMetadataList":
            raise errors.not_acceptable(negotiation.ANSWERS)
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
        raise errors.bad_request(
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


Serve = Callable[[HandlerRequest, ResourceKind], Awaitable[Response]]


class ResourceServer(Struct, frozen=True):
    """One method per verb of the API."""

    verbs: Verbs
    responses: ResponseBuilder
    authorizer: Authorizer
    _by_verb: dict[str, Serve] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_verb.update(
            {
                "get": self._get,
                "list": self._list,
                "watch": self._watch,
                "create": self._create,
                "update": self._update,
                "patch": self._patch,
                "delete": self._delete,
                "deletecollection": self._delete_collection,
            }
        )

    async def serve(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        """Serve a request past authorization; 405 when the kind has no such verb."""
        verb, subresource = request.info.verb, request.info.subresource
        allowed = subresource_verbs(subresource) if subresource else kind.verbs
        serve = self._by_verb.get(verb) if subresource != "scale" else self._scale
        if serve is None or verb not in allowed:
            raise (
                errors.method_not_allowed(kind.resource, verb or request.method)
                if kind.custom
                else errors.verb_not_allowed()
            )
        return await serve(request, kind)

    async def _scale(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        """Serve the size of a workload as a Scale, changed by an update or a merge patch."""
        if request.info.verb == "get":
            record = await self.verbs.read.get(kind, _key(request), request.parameter("resourceVersion"))
            return negotiation.object_response(request, scale_of(orjson.loads(record.body)))
        media = media_type(request.header("content-type"))
        scale = decode(request.body, JSON if media in (MERGE_PATCH, STRATEGIC_PATCH) else media)
        replicas = (scale.get("spec") or {}).get("replicas") or 0
        if type(replicas) is not int or replicas < 0:
            error = invalid_field("spec.replicas", replicas, "must be greater than or equal to 0")
            raise errors.invalid_kind("autoscaling", "Scale", request.info.name, [error])

        def resize(obj: Object) -> Object:
            obj["spec"]["replicas"] = replicas
            # An absent revision means that any will do; a given one must still be the stored one.
            obj["metadata"]["resourceVersion"] = (scale.get("metadata") or {}).get("resourceVersion") or ""
            return obj

        answer = await self.verbs.update.revise(
            _target(request, kind), resize, self._call(request, options_kind="UpdateOptions")
        )
        return negotiation.object_response(request, scale_of(orjson.loads(answer.body)))

    async def _get(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        record = await self.verbs.read.get(kind, _key(request), request.parameter("resourceVersion"))
        return self.responses.answer(request, kind, VerbResult(self.responses.objects.wire(kind, record)))

    async def _list(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        negotiation.choose_media(request)  # refuse before reading thousands of objects
        page = await self.verbs.read.page(kind, request.info.namespace, read_list_options(request))
        return self.responses.page(request, kind, page)

    async def _watch(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        media = negotiation.choose_media(request)
        options = read_list_options(request, watch=True)
        show = self.responses.watch_transform(request, kind, media)
        stream, attach = await self.verbs.watch(kind, request.info.namespace, options, show)
        return Response(200, (("Content-Type", media.type),), stream=stream, attach=attach)

    async def _create(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        call = read_write_request(request, options_kind="CreateOptions")
        obj = _body(request, kind, call)
        answer = await self.verbs.create(kind, request.info.namespace, obj, call)
        return self.responses.answer(request, kind, answer, call)

    async def _update(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        call = self._call(request, options_kind="UpdateOptions")
        bodies = [_body(request, kind, call)]

        def body() -> Object:
            # An attempt may change the object it is given: a second attempt decodes its own.
            return bodies.pop() if bodies else _body(request, kind, WriteRequest())

        answer = await self.verbs.update.replace(_target(request, kind), body, call)
        return self.responses.answer(request, kind, answer, call)

    async def _patch(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        media = patch_type(request, kind)
        call = self._call(request, options_kind="PatchOptions", apply=media == APPLY_PATCH)
        answer = await self.verbs.patch(_target(request, kind), media, request.body, call)
        return self.responses.answer(request, kind, answer, call)

    async def _delete(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        options = read_delete_options(request)
        call = options.write_request(request)
        answer = await self.verbs.delete(kind, _key(request), options, call)
        return self.responses.answer(request, kind, answer, call)

    async def _delete_collection(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        options = read_delete_options(request)
        chosen = read_list_options(request, watch=False)
        call = options.write_request(request)
        page = await self.verbs.delete_collection(kind, request.info.namespace, chosen, options, call)
        return self.responses.page(request, kind, page)

    def _call(self, request: HandlerRequest, *, options_kind: str, apply: bool = False) -> WriteRequest:
        """Read a write that may turn out to create: then the right to create is checked, too."""
        call = read_write_request(request, options_kind=options_kind, apply=apply)
        info = replace(request.info, verb="create")
        return replace(call, may_create=lambda: require(self.authorizer, request.user, info))


def scale_of(obj: Object) -> Object:
    """Return the Scale of a workload; what is absent counts as zero."""
    identity = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    replicas, selector = obj["spec"].get("replicas"), obj["spec"].get("selector") or {}
    labels = sorted((selector.get("matchLabels") or {}).items())
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in identity if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas") or 0,
            "selector": ",".join(f"{key}={value}" for key, value in labels),
        },
    }


def subresource_verbs(subresource: str) -> tuple[str, ...]:
    return ("update",) if subresource == "finalize" else ("get", "update", "patch")


def _key(request: HandlerRequest) -> ObjectKey:
    info = request.info
    namespaced = info.resource != "namespaces" or info.group
    return ObjectKey(info.namespace if namespaced else "", info.name)


def _target(request: HandlerRequest, kind: ResourceKind) -> UpdateTarget:
    return UpdateTarget(kind, _key(request), request.info.subresource, request.info.verb)


def _body(request: HandlerRequest, kind: ResourceKind, call: WriteRequest) -> Object:
    obj = decode_body(request, kind=kind.resource.kind)
    if kind.custom:
        require_type_meta(request, kind.resource.kind, obj)
    duplicates: list[str] = []
    if call.strictness != "Ignore" and media_type(request.header("content-type")) == JSON:
        duplicates = duplicate_fields(request.body, obj)
    prune_and_default(kind, obj, call, duplicates)
    return obj
