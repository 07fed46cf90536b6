"""Serves the verbs of stored kinds: reads the request, calls the verb, shows the outcome."""

from collections.abc import Awaitable, Callable

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey
from watchword.apiserver.authz.model import Authorizer, require
from watchword.apiserver.bodies import JSON, decode_body, duplicate_fields, media_type, require_type_meta
from watchword.apiserver.errors import method_not_allowed, verb_not_allowed
from watchword.apiserver.model import HandlerRequest, ResourceKind
from watchword.apiserver.negotiation import choose_media
from watchword.apiserver.registry.delete import read_delete_options
from watchword.apiserver.registry.options import read_list_options, read_write_request
from watchword.apiserver.registry.patch import APPLY_PATCH, patch_type
from watchword.apiserver.registry.pipeline import VerbResult, WriteRequest, prune_and_default
from watchword.apiserver.registry.registry import Verbs
from watchword.apiserver.registry.update import UpdateTarget
from watchword.apiserver.serving.responses import ResponseBuilder

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
            raise method_not_allowed(kind.resource, verb or request.method) if kind.custom else verb_not_allowed()
        return await serve(request, kind)

    async def _scale(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        from watchword.apiserver.serving.scale import ScaleServer

        return await ScaleServer(self.verbs).serve(request, kind)

    async def _get(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        record = await self.verbs.read.get(kind, _key(request), request.parameter("resourceVersion"))
        return self.responses.answer(request, kind, VerbResult(self.responses.objects.wire(kind, record)))

    async def _list(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        choose_media(request)  # refuse before reading thousands of objects
        page = await self.verbs.read.page(kind, request.info.namespace, read_list_options(request))
        return self.responses.page(request, kind, page)

    async def _watch(self, request: HandlerRequest, kind: ResourceKind) -> Response:
        media = choose_media(request)
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
