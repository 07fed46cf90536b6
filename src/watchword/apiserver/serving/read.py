"""The verbs get, list and watch, at the requested revision."""

import asyncio
import base64
import binascii
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable

import orjson
from msgspec import Struct

from watchword.api.http import Push
from watchword.api.meta import ObjectKey
from watchword.apiserver.serving.errors import bad_request, expired, not_found, quote
from watchword.apiserver.serving.model import ApiError, ResourceKind
from watchword.apiserver.serving.object_storage import Matcher, ObjectStorage, bucket_of, matcher_for
from watchword.apiserver.serving.pipeline import ListOptions, VerbDependencies
from watchword.apiserver.serving.watch import (
    EventEncoder,
    ObjectTransform,
    Watch,
    WatchBroadcaster,
    WatchPlan,
    error_stream,
)
from watchword.apiserver.store.model import Compacted, Record, Store, path_of

LATEST = -1
"""In place of a revision: go on at the latest state, inconsistently."""
PATIENCE = 3.0
"""Seconds to wait for a revision that is not here yet."""
_POLL_SECONDS = 0.05
_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)
MIN_SECONDS = 1800.0


def encode_continue_token(revision: int, start: str) -> str:
    """Encode a place in a list; `start` comes first in the next page."""
    data = orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": start})
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decode_continue_token(token: str) -> tuple[int, str]:
    """Read a token; 400 when it is none of ours."""
    try:
        data = orjson.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (ValueError, binascii.Error):
        raise _invalid("") from None
    if not isinstance(data, dict) or data.get("v") != "meta.k8s.io/v1":
        version = data.get("v", "") if isinstance(data, dict) else ""
        raise _invalid(f": server does not recognize this encoded version {version}")
    revision, start = data.get("rv"), data.get("start")
    if not isinstance(revision, int) or not isinstance(start, str) or revision == 0 or not start:
        raise _invalid(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
    return revision, start


def _invalid(detail: str) -> ApiError:
    return bad_request(f"invalid continue token: continue key is not valid{detail}")


class ListPage(Struct, frozen=True):
    """One response to a list."""

    records: list[Record]
    revision: int
    continue_token: str = ""
    remaining: int | None = None


async def get_record(store: Store, kind: ResourceKind, key: ObjectKey, resource_version: str) -> Record:
    """Return one record; 404 when it does not exist."""
    if resource_version not in {"", "0"}:
        if not is_revision(resource_version):
            raise ApiError(500, "", f"resourceVersion: {_unreadable(resource_version)}")
        await _wait_for(store, int(resource_version))
    record = store.get(bucket_of(kind), path_of(key))
    if record is None:
        raise not_found(kind.resource, key.name)
    return record


async def list_page(objects: ObjectStorage, kind: ResourceKind, namespace: str, options: ListOptions) -> ListPage:
    matcher = matcher_for(kind, objects, namespace, options.labels, options.fields)
    store, bucket = objects.store, bucket_of(kind)
    start, revision = await _start(store, options)
    try:
        records = store.records(bucket, namespace) if revision is None else store.snapshot(bucket, revision, namespace)
    except Compacted:
        refusal = expired(_CONTINUE_EXPIRED if start else _LIST_EXPIRED)
        refusal.continue_token = encode_continue_token(LATEST, start) if start else ""
        raise refusal from None
    # As kube-apiserver: "any revision" is served from a cache that does not page.
    limit = 0 if options.resource_version == "0" and not options.continue_token else options.limit
    return _page(records, store.revision if revision is None else revision, start, limit, matcher)


async def _wait_for(store: Store, revision: int) -> None:
    """Return once the revision is committed; 504 when it does not come."""
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while store.revision < revision:
        if asyncio.get_running_loop().time() >= deadline:
            cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
            message = f"Timeout: Too large resource version: {revision}, current: {store.revision}"
            raise ApiError(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})
        await asyncio.sleep(_POLL_SECONDS)


async def _start(store: Store, options: ListOptions) -> tuple[str, int | None]:
    """Return the first path of the page and the exact revision, None for the latest."""
    if options.continue_token:
        if options.resource_version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode_continue_token(options.continue_token)
        return start, None if revision == LATEST else revision
    if options.resource_version in {"", "0"}:
        return "", None
    revision = parse_revision(options.resource_version)
    await _wait_for(store, revision)
    exact = options.match == "Exact" or (not options.match and options.limit > 0)
    return "", revision if exact else None


def parse_revision(text: str) -> int:
    """Read a resourceVersion; 400 when it is no decimal number."""
    if not is_revision(text):
        raise bad_request(f"invalid resource version: resourceVersion: {_unreadable(text)}")
    return int(text)


def is_revision(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 20


def _unreadable(text: str) -> str:
    return f"Invalid value: {quote(text)}: strconv.ParseUint: parsing {quote(text)}: invalid syntax"


def _page(records: list[Record], revision: int, start: str, limit: int, matcher: Matcher) -> ListPage:
    first = bisect_left(records, start, key=lambda record: record.path) if start else 0
    if not limit and not matcher.selective:
        return ListPage(records[first:] if first else records, revision)
    taken: list[Record] = []
    position = first
    while position < len(records) and not (limit and len(taken) >= limit):
        if not matcher.selective or matcher.matches(records[position]):
            taken.append(records[position])
        position += 1
    if position >= len(records):
        return ListPage(taken, revision)
    token = encode_continue_token(revision, records[position - 1].path + "\0")
    return ListPage(taken, revision, token, None if matcher.selective else len(records) - position)


async def open_watch(
    tools: VerbDependencies,
    broadcaster: WatchBroadcaster,
    kind: ResourceKind,
    namespace: str,
    options: ListOptions,
    show: ObjectTransform | None,
) -> tuple[AsyncIterator[bytes], Callable[[Push], None] | None]:
    """Return the stream of one watch and what lets it push; 400 for selectors the kind does not know."""
    matcher = matcher_for(kind, tools.objects, namespace, options.labels, options.fields)
    if options.resource_version and not is_revision(options.resource_version):
        # As kube-apiserver: the one case in which a malformed parameter is a 500.
        raise ApiError(500, "", f"resourceVersion: {_unreadable(options.resource_version)}")
    try:
        plan = await _plan(tools, options, matcher)
    except ApiError as refusal:
        return error_stream(refusal), None
    watch = Watch(plan, matcher, EventEncoder(kind, tools.objects, show), broadcaster)
    return watch.stream(), watch.attach


async def _plan(tools: VerbDependencies, options: ListOptions, matcher: Matcher) -> WatchPlan:
    # A random time spreads the ends of watches, so that clients do not all return at once.
    seconds = float(options.timeout_seconds or MIN_SECONDS * (1 + int.from_bytes(tools.entropy(4), "big") / 2**32))
    wanted = 0 if options.resource_version in {"", "0"} else parse_revision(options.resource_version)
    store = tools.objects.store
    if options.send_initial_events:
        await _wait_for(store, wanted)
    elif wanted > store.revision:
        # Every revision handed out was committed here: one from the future comes from lost data.
        raise expired(f"too old resource version: {wanted} ({store.revision})")
    if options.send_initial_events or (not wanted and options.send_initial_events is None):
        initial = store.records(bucket_of(matcher.kind), matcher.namespace)
        if matcher.selective:
            initial = [record for record in initial if matcher.matches(record)]
        return WatchPlan(store.revision, initial, options.bookmarks, options.bookmarks, seconds, tools.bookmark_every)
    return WatchPlan(wanted or store.revision, None, options.bookmarks, False, seconds, tools.bookmark_every)
