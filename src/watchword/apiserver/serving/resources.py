"""Serves the verbs of stored kinds: reads the request, calls the verb, shows the outcome."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime

import orjson
from msgspec import structs

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.access.rbac import Authorizer, require
from watchword.apiserver.serving import bodies, errors, negotiation, patch
from watchword.apiserver.serving.delete import delete, read_delete_options
from watchword.apiserver.serving.field_errors import invalid as invalid_field
from watchword.apiserver.serving.model import ApiError, HandlerRequest, Now, ResourceKind, without_empty
from watchword.apiserver.serving.pipeline import (
    VerbDependencies,
    VerbResult,
    WriteRequest,
    prune_and_default,
    read_list_options,
    read_write_request,
)
from watchword.apiserver.serving.read import ListPage, get_record, list_page, open_watch
from watchword.apiserver.serving.watch import WatchBroadcaster
from watchword.apiserver.serving.write import UpdateTarget, create, replace, revise
from watchword.apiserver.store.model import Record

_JSON_HEADER = ("Content-Type", bodies.JSON)
_WATCHED = (f"{bodies.JSON};stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


def _answer(
    tools: VerbDependencies, request: HandlerRequest, kind: ResourceKind, answer: VerbResult, warnings: list[str]
) -> Response:
    media = negotiation.choose_media(request)
    headers = negotiation.warning_headers(warnings)
    if media.plain:
        return Response(answer.status, (_JSON_HEADER, *headers), answer.body)
    obj: Object = orjson.loads(answer.body)
    if media.transform and obj.get("kind") != "Status":
        obj = _object_transform(request, kind, media, tools.now)(obj)
    return negotiation.encoded_response(media, obj, answer.status, headers)


def _object_transform(
    request: HandlerRequest, kind: ResourceKind, media: negotiation.Media, now: Now
) -> Callable[[Object], Object]:
    if media.transform == "Table":
        include = _included(request)
        return lambda obj: table(kind, [obj], now=now(), include=include, version=media.version)
    if media.transform == "PartialObjectMetadata":
        return lambda obj: partial_metadata(obj, media.version)
    raise errors.not_acceptable(negotiation.ANSWERS)


def _included(request: HandlerRequest) -> str:
    return request.parameter("includeObject") or "Metadata"


def _list_response(tools: VerbDependencies, request: HandlerRequest, kind: ResourceKind, page: ListPage) -> Response:
    media = negotiation.choose_media(request)
    metadata = list_metadata(page, custom=kind.custom)
    if not media.transform:
        resource = kind.resource
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata}
        body = b"".join([orjson.dumps(head)[:-1], b',"items":[', *_items(tools, kind, page), b"]}"])
        if media.plain:
            return Response(200, (_JSON_HEADER,), body)
        return negotiation.encoded_response(media, orjson.loads(body))
    items = [tools.objects.decode(kind, record) for record in page.records]
    if media.transform == "Table":
        shown = table(kind, items, now=tools.now(), include=_included(request), version=media.version)
        return negotiation.encoded_response(media, {**shown, "metadata": metadata})
    if media.transform != "PartialObjectMetadataList":
        raise errors.not_acceptable(negotiation.ANSWERS)
    shown = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{media.version}",
        "metadata": metadata,
        "items": [partial_metadata(item, media.version) for item in items],
    }
    return negotiation.encoded_response(media, shown)


def _items(tools: VerbDependencies, kind: ResourceKind, page: ListPage) -> Iterator[bytes | memoryview]:
    """Yield the items in pieces that are not copied before all are joined."""
    for number, record in enumerate(page.records):
        if number:
            yield b","
        yield from tools.objects.item(kind, record)


def _columns_once(shown: Callable[[Object], Object]) -> Callable[[Object], Object]:
    """Show the columns in the first table of a watch only, as upstream does."""
    is_first = True

    def show(obj: Object) -> Object:
        nonlocal is_first
        with_columns, is_first = is_first, False
        return shown(obj) if with_columns else {**shown(obj), "columnDefinitions": None}

    return show


def list_metadata(page: ListPage, *, custom: bool = False) -> Object:
    """Return the metadata of a list; those of custom kinds always show where to go on, if only nowhere."""
    place = {"continue": page.continue_token} if page.continue_token or custom else {}
    return {"resourceVersion": str(page.revision), **place, **without_empty({"remainingItemCount": page.remaining})}


def partial_metadata(obj: Object, version: str = "v1") -> Object:
    return {"kind": "PartialObjectMetadata", "apiVersion": f"meta.k8s.io/{version}", "metadata": obj["metadata"]}


def table(
    kind: ResourceKind, objects: Sequence[Object], *, now: datetime, include: str = "Metadata", version: str = "v1"
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


class ResourceServer:
    """One method per verb of the API."""

    def __init__(self, tools: VerbDependencies, authorizer: Authorizer) -> None:
        self.broadcaster = WatchBroadcaster(tools.objects.store)
        self._tools = tools
        self._authorizer = authorizer
        self._by_verb: dict[str, Serve] = {
            "get": self._get,
            "list": self._list,
            "watch": self._watch,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    async def serve(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        """Serve a request past authorization; 405 when the kind has no such verb."""
        verb, subresource = request.info.verb, request.info.subresource
        changes = ("update",) if subresource == "finalize" else ("get", "update", "patch")
        allowed = changes if subresource else kind.verbs
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
            record = await self._record(request, kind)
            return negotiation.object_response(request, scale_of(orjson.loads(record.body)))
        media = bodies.media_type(request.header("content-type"))
        is_patch = media in (patch.MERGE_PATCH, patch.STRATEGIC_PATCH)
        given = bodies.decode(request.body, bodies.JSON if is_patch else media)

        def resize(obj: Object) -> Object:
            scale = patch.apply_merge_patch(scale_of(obj), given) if is_patch else given
            spec, metadata = scale.get("spec") or {}, scale.get("metadata") or {}
            if type(spec) is not dict or type(metadata) is not dict:
                raise errors.bad_request("the spec and the metadata of a Scale are objects")
            replicas = spec.get("replicas") or 0
            if type(replicas) is not int or replicas < 0:
                error = invalid_field("spec.replicas", replicas, "must be greater than or equal to 0")
                raise errors.invalid_kind("autoscaling", "Scale", request.info.name, [error])
            obj["spec"]["replicas"] = replicas
            # An absent revision means that any will do; a given one must still be the stored one.
            obj["metadata"]["resourceVersion"] = metadata.get("resourceVersion") or ""
            return obj

        call = self._call(request, options_kind="UpdateOptions")
        answer = await revise(self._tools, _target(request, kind), resize, call)
        return negotiation.object_response(request, scale_of(orjson.loads(answer.body)))

    async def _get(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        record = await self._record(request, kind)
        return _answer(self._tools, request, kind, VerbResult(self._tools.objects.wire(kind, record)), [])

    async def _record(self, request: HandlerRequest, kind: ResourceKind) -> Record:
        store, version = self._tools.objects.store, request.parameter("resourceVersion")
        return await get_record(store, kind, _key(request), version)

    async def _list(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        negotiation.choose_media(request)  # refuse before reading thousands of objects
        page = await list_page(self._tools.objects, kind, request.info.namespace, read_list_options(request))
        return _list_response(self._tools, request, kind, page)

    async def _watch(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        media = negotiation.choose_media(request)
        options = read_list_options(request, watch=True)
        if media.type != bodies.JSON:
            raise errors.not_acceptable(_WATCHED)
        show = _object_transform(request, kind, media, self._tools.now) if media.transform else None
        if show is not None and media.transform == "Table":
            show = _columns_once(show)
        namespace = request.info.namespace
        stream, attach = await open_watch(self._tools, self.broadcaster, kind, namespace, options, show)
        return Response(200, (("Content-Type", media.type),), stream=stream, attach=attach)

    async def _create(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        call = read_write_request(request, options_kind="CreateOptions")
        obj = _body(request, kind, call)
        answer = await create(self._tools, kind, request.info.namespace, obj, call)
        return _answer(self._tools, request, kind, answer, call.warnings)

    async def _update(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        call = self._call(request, options_kind="UpdateOptions")
        decoded = [_body(request, kind, call)]

        def body() -> Object:
            # An attempt may change the object it is given: a second attempt decodes its own.
            return decoded.pop() if decoded else _body(request, kind, WriteRequest())

        answer = await replace(self._tools, _target(request, kind), body, call)
        return _answer(self._tools, request, kind, answer, call.warnings)

    async def _patch(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        media = patch.patch_type(request, kind)
        call = self._call(request, options_kind="PatchOptions", apply=media == patch.APPLY_PATCH)
        answer = await patch.patch(self._tools, _target(request, kind), media, request.body, call)
        return _answer(self._tools, request, kind, answer, call.warnings)

    async def _delete(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        options = read_delete_options(request)
        call = options.write_request(request)
        answer = await delete(self._tools, kind, _key(request), options, call)
        return _answer(self._tools, request, kind, answer, call.warnings)

    async def _delete_collection(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        """Delete object by object what a list shows; one that is already gone does not stop the rest."""
        options = read_delete_options(request)
        chosen = read_list_options(request, watch=False)
        call = options.write_request(request)
        page = await list_page(self._tools.objects, kind, request.info.namespace, chosen)
        for record in page.records:
            try:
                await delete(self._tools, kind, record.key, options, call)
            except ApiError as refusal:
                if refusal.reason != "NotFound":
                    raise
        return _list_response(self._tools, request, kind, page)

    def _call(self, request: HandlerRequest, *, options_kind: str, apply: bool = False) -> WriteRequest:
        """Read a write that may turn out to create: then the right to create is checked, too."""
        call = read_write_request(request, options_kind=options_kind, apply=apply)
        info = structs.replace(request.info, verb="create")
        return structs.replace(call, may_create=lambda: require(self._authorizer, request.user, info))


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


def _key(request: HandlerRequest) -> ObjectKey:
    info = request.info
    namespaced = info.resource != "namespaces" or info.group
    return ObjectKey(info.namespace if namespaced else "", info.name)


def _target(request: HandlerRequest, kind: ResourceKind) -> UpdateTarget:
    return UpdateTarget(kind, _key(request), request.info.subresource, request.info.verb)


def _body(request: HandlerRequest, kind: ResourceKind, call: WriteRequest) -> Object:
    obj = bodies.decode_body(request, kind=kind.resource.kind)
    if kind.custom:
        bodies.require_type_meta(request, kind.resource.kind, obj)
    duplicates: list[str] = []
    if call.strictness != "Ignore" and bodies.media_type(request.header("content-type")) == bodies.JSON:
        duplicates = bodies.duplicate_fields(request.body, obj)
    prune_and_default(kind, obj, call, duplicates)
    return obj
