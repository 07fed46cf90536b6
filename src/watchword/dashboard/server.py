"""Answers the requests of browsers: read-only, for signed-in sessions, under a strict content policy."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from importlib.resources import files
from itertools import islice
from operator import itemgetter
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson
import structlog
from msgspec import Struct, field

from watchword.api.conditions import conditions_of
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, ObjectRef, labels_of
from watchword.api.names import ConditionType, Label
from watchword.api.time import rfc3339
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.history import HistoryEntry, regarded_cluster
from watchword.dashboard.row_index import RowIndex
from watchword.dashboard.rows import HEALTHS, Row, clean, event_document, seconds
from watchword.dashboard.sources import REQUESTS, gather_facts
from watchword.dashboard.viewers import Viewers, Visibility
from watchword.health.inventory import read_issued_certificate
from watchword.health.recent_events import FleetEvent, read_event
from watchword.health.states import InventoryHealth
from watchword.kube.errors import KubeError

FRAME = 0.5  # seconds between two messages at least, once a browser has everything
OBJECTS_AT_ONCE = 256  # whose rows are in one message at most
FIRST_IN_VIEW = 64
EVENTS_STREAMED = 50
RETRY, END = b"retry: 2000\n\n", b"event: end\ndata: {}\n\n"


async def stream_rows(
    fleet: Fleet, look: Callable[[], Awaitable[Visibility | None]], viewer: Mapping[str, str]
) -> AsyncIterator[bytes]:
    """Yield everything in parts, what needs attention first, then what changes; ends when the session does."""
    yield RETRY
    await fleet.ready.wait()
    browser = BrowserCopy(fleet, {b"healths": orjson.dumps(HEALTHS), b"viewer": orjson.dumps(dict(viewer))})
    while (seen := await look()) is not None:
        yield browser.next_message(seen)
        await asyncio.sleep(0 if browser.left else FRAME)
        if not browser.left:
            await fleet.change(browser.revision)
    yield END


class BrowserCopy(Struct):
    """What one browser holds, and what it has to be sent so that it holds what it may see."""

    fleet: Fleet
    greeting: Mapping[bytes, bytes]  # parts of the first message alone
    revision: int = -1
    _indexed: int = -1
    _seen: Visibility | None = None
    _held: dict[ObjectRef, tuple[Row, ...]] = field(default_factory=dict)
    _left: dict[ObjectRef, None] = field(default_factory=dict)
    _told: tuple[int, ...] | None = None  # the numbers of the events that it holds
    _events_at: tuple[Visibility, int] | None = None
    _unseen: Mapping[str, str] | None = None

    @property
    def left(self) -> int:
        """How many objects have not been compared yet."""
        return len(self._left)

    def next_message(self, seen: Visibility) -> bytes:
        """Return the next difference; what may not be seen any more is removed by the first message after that."""
        first = self._seen is None
        gone = self._take_up(seen)
        put: list[bytes] = []
        for ref in list(islice(self._left, OBJECTS_AT_ONCE)):
            del self._left[ref]
            gone += self._compare(ref, put)
        parts = {
            b"now": orjson.dumps(seconds(self.fleet.clock.now())),
            b"put": b"{%b}" % b",".join(put),
            b"gone": orjson.dumps(gone),
            b"left": orjson.dumps(len(self._left)),
            **self._changed_parts(seen),
            **(self.greeting if first else {}),
        }
        body = b",".join(b'"%b":%b' % pair for pair in parts.items())
        return b"event: %b\ndata: {%b}\n\n" % (b"board" if first else b"update", body)

    def _take_up(self, seen: Visibility) -> list[str]:
        """Note what has to be compared; return the ids of rows that may not be seen any more."""
        index = self.fleet.index
        changed = index.changed_since(self._indexed) if seen is self._seen else None
        self._seen, self.revision, self._indexed = seen, self.fleet.revision, index.revision
        if changed is not None:
            self._left.update(dict.fromkeys(changed))
            return []
        self._left = order_for_view(index, seen)
        hidden = [ref for ref in self._held if ref not in self._left]
        return [row.id for ref in hidden for row in self._held.pop(ref)]

    def _compare(self, ref: ObjectRef, put: list[bytes]) -> list[str]:
        """Take over the rows of one object; return the ids of those that are gone."""
        assert self._seen is not None
        held, shown = self._held.pop(ref, ()), self.fleet.index.shown(ref, self._seen)
        if shown is not None:
            self._held[ref] = shown
        known = {row.id: row.entry for row in held}
        put += [row.entry for row in shown or () if known.pop(row.id, None) != row.entry]
        return list(known)

    def _changed_parts(self, seen: Visibility) -> dict[bytes, bytes]:
        """Return what else differs from what was sent before."""
        parts, unseen = {}, seen.explain(self.fleet.observer.unseen)
        if unseen != self._unseen:
            parts[b"unseen"] = orjson.dumps({name: clean(why) for name, why in sorted(unseen.items())})
            self._unseen = unseen
        if self._events_at == (seen, self.fleet.recent.revision):
            return parts
        self._events_at = seen, self.fleet.recent.revision
        latest = self.fleet.recent.latest(EVENTS_STREAMED, lambda ref: self.fleet.index.shown(ref, seen) is not None)
        numbers = tuple(each.number for each in latest)
        if numbers != self._told:
            known = frozenset(self._told or ())
            self._told = numbers
            rows = [
                each.number if each.number in known else {"number": each.number, **event_document(each.event)}
                for each in latest
            ]
            parts[b"events"] = orjson.dumps(rows)
        return parts


def order_for_view(index: RowIndex, seen: Visibility) -> dict[ObjectRef, None]:
    """Return everything that a person may see: what needs attention first, then what ends first."""
    shown = {ref: index.shown(ref, seen) or () for ref in index.visible(seen)}
    affected = [ref for ref, rows in shown.items() if any(row.health < InventoryHealth.DUE for row in rows)]
    ends = ((row.expires, ref) for ref, rows in shown.items() for row in rows if row.expires is not None)
    ending = nsmallest(FIRST_IN_VIEW, ends, key=itemgetter(0))
    return dict.fromkeys((*affected, *(ref for _, ref in ending), *shown))


NEGATIVE = frozenset({"HubConnectionDegraded", ConditionType.DELETING, ConditionType.REVOCATION_PENDING, "Superseded"})
"""Conditions whose status True needs attention."""
EVENTS_SHOWN, REQUESTS_SHOWN = 100, 50


def read_cluster_page(fleet: Fleet, name: str, seen: Visibility) -> Object | None:
    """Return everything about one cluster that a person may see; None when that is nothing."""
    refs = dict.fromkeys((*fleet.index.in_part(name), *fleet.related.about(name)))
    read = (each for each in map(fleet.read, refs) if each is not None)
    found = [(source, obj) for source, obj in read if seen.sees(source, source.part(ObjectKey.of(obj)))]
    shown = (fleet.index.shown(ref, seen) for ref in refs)
    log = fleet.history if seen.sees(REQUESTS) else fleet.limited_history
    observed = log.entries(name, {row.id for rows in shown for row in rows or ()})
    facts = gather_facts(found)
    cluster = next((each for each in facts.clusters if each["metadata"]["name"] == name), None)
    if cluster is None:
        return None
    own = [each for each in (*facts.addons, *facts.accounts) if each["metadata"].get("namespace") == name]
    requests = [each for each in facts.requests if labels_of(each).get(Label.CLUSTER_NAME) == name]
    changes = sorted((*_requests(requests), *observed), key=lambda entry: entry.at, reverse=True)
    return {
        "name": clean(name),
        "created": str(cluster["metadata"].get("creationTimestamp") or ""),
        "labels": {clean(key): clean(value) for key, value in sorted(labels_of(cluster).items())},
        "conditions": [*_conditions(cluster, "cluster"), *(row for each in own for row in _conditions(each))],
        "events": [event_document(event) for event in _events(facts.events, name)],
        "history": [{"at": entry.at, "about": clean(entry.about), "what": clean(entry.what)} for entry in changes],
    }


def _conditions(obj: Object, about: str = "") -> Iterable[dict[str, Any]]:
    named = about or f"{obj.get('kind') or 'object'!s} {obj['metadata']['name']}"
    for row in conditions_of(obj):
        type_, status = str(row.get("type") or ""), str(row.get("status") or "Unknown")
        yield {
            "object": clean(named),
            "type": clean(type_),
            "status": clean(status),
            "reason": clean(str(row.get("reason") or "")),
            "message": clean(str(row.get("message") or "")),
            "since": clean(str(row.get("lastTransitionTime") or "")),
            "good": (status == "False") if type_ in NEGATIVE else status == "True",
        }


def _events(events: Sequence[Object], name: str) -> list[FleetEvent]:
    """Return the events in the cluster's namespace and about the cluster itself, the latest first."""
    own = [event for event in events if event["metadata"].get("namespace") == name or regarded_cluster(event) == name]
    return sorted(map(read_event, own), key=lambda event: event.at, reverse=True)[:EVENTS_SHOWN]


def _requests(requests: Sequence[Object]) -> Iterable[HistoryEntry]:
    for request in requests[-REQUESTS_SHOWN:]:
        spec, metadata = request.get("spec") or {}, request["metadata"]
        holder = labels_of(request).get(Label.ADDON_NAME)
        about = f"add-on {holder}" if holder else "cluster"
        at = str(metadata.get("creationTimestamp") or "")
        yield HistoryEntry(at, about, f"certificate request {metadata['name']} by {spec.get('username') or 'unknown'}")
        for row in conditions_of(request):
            decided = str(row.get("lastUpdateTime") or row.get("lastTransitionTime") or at)
            yield HistoryEntry(decided, about, f"{row.get('type')}: {row.get('message') or row.get('reason') or ''}")
        issued = read_issued_certificate(request)
        if issued is not None:
            span = f"valid until {rfc3339(issued.not_after)}"
            yield HistoryEntry(rfc3339(issued.not_before), about, f"certificate issued to {issued.common_name}, {span}")


LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class OwnAddress(Struct, frozen=True):
    """The names under which browsers reach the dashboard."""

    names: tuple[str, ...] = LOOPBACK_NAMES
    secure: bool = False  # https, by the dashboard itself or by a proxy before it

    @property
    def scheme(self) -> str:
        return "https" if self.secure else "http"

    def objection(self, request: Request) -> str:
        """Return why a request is refused, empty for one that was meant for us."""
        host = request.header("Host")
        if host_name(host) not in self.names:
            return f"open the dashboard under one of its names: {', '.join(self.names)}"
        origin = request.header("Origin")
        if origin and origin != f"{self.scheme}://{host}":
            return "requests from other sites are refused"
        if request.header("Sec-Fetch-Site") in ("cross-site", "same-site") and not (
            request.method == "GET" and request.header("Sec-Fetch-Mode") == "navigate"
        ):
            return "requests from other sites are refused"
        return ""


def host_name(host: str) -> str:
    """Return the name in a Host header, without port and brackets; empty when it is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "json": "application/json",
}
INDEX, LOGIN, SIGNED_IN, SIGNED_OUT = "index.html", "login.html", "signed-in.html", "signed-out.html"


class Asset(Struct, frozen=True):
    """One file."""

    content: bytes
    content_type: str
    tag: str

    def answer(self, request: Request, status: int = 200) -> Response:
        """Return the file, or only that the browser has it already."""
        headers = (("Cache-Control", "no-cache"), ("ETag", self.tag), ("Content-Type", self.content_type))
        if status == 200 and request.header("If-None-Match") == self.tag:
            return Response(304, headers)
        return Response(status, headers, self.content)


def load_assets() -> Mapping[str, Asset]:
    found = {}
    for path in files(__package__).joinpath("assets").iterdir():
        suffix = path.name.rpartition(".")[2]
        if suffix in TYPES:
            content = path.read_bytes()
            tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
            found[path.name] = Asset(content, TYPES[suffix], tag)
    return found


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = (
    ("Content-Security-Policy", POLICY),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),  # with no-referrer, browsers would hide the origin of the login form
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Permissions-Policy", "camera=(), geolocation=(), microphone=()"),
)
UNCACHED = ("Cache-Control", "no-store")
TEXT = ("Content-Type", "text/plain; charset=utf-8")
CLUSTERS_PATH = "/api/clusters/"


class DashboardServer(Struct, frozen=True):
    """Serves the pages, one stream of changes for each browser, and one document for each cluster."""

    fleet: Fleet
    viewers: Viewers
    address: OwnAddress = field(default_factory=OwnAddress)
    cookie: str = "watchword"
    assets: Mapping[str, Asset] = field(default_factory=load_assets)

    async def handle(self, request: Request) -> Response:
        """Answer one request; every answer carries the security headers."""
        try:
            answer = await self._answer(request)
        except KubeError as error:
            structlog.get_logger("watchword.dashboard").warning("the API server did not answer", error=str(error))
            answer = _text(503, "the API server did not answer: try again")
        return Response(answer.status, (*answer.headers, *HEADERS), answer.body, answer.stream, answer.user)

    async def _answer(self, request: Request) -> Response:
        objection = self.address.objection(request)
        if objection:
            return _text(403, objection)
        if request.method == "POST" and request.path in ("/login", "/logout"):
            return await self._post(request)
        if request.method not in ("GET", "HEAD"):
            return Response(405, (("Allow", "GET, HEAD"), TEXT), b"the dashboard is read-only\n")
        if request.path.startswith("/assets/"):
            found = self.assets.get(request.path.removeprefix("/assets/"))
            return found.answer(request) if found is not None else _text(404, "there is no such file")
        return await self._read(request)

    async def _read(self, request: Request) -> Response:
        if request.path == "/" and request.parameter("code") and not self.viewers.login:
            # Exchange the code for a cookie; the page that answers opens the address without the code.
            cookie = await self.viewers.sign_in(request.parameter("code"))
            if cookie is None:
                return self.assets[SIGNED_OUT].answer(request, 401)
            page = self.assets[SIGNED_IN]
            return Response(
                200,
                (("Content-Type", page.content_type), UNCACHED, ("Set-Cookie", self._set_cookie(cookie))),
                page.content,
            )
        if request.path == "/login" and self.viewers.login:
            return self.assets[LOGIN].answer(request)
        seen = await self.viewers.see(self._cookie_of(request))
        return self._turn_away(request) if seen is None else self._page(request, seen)

    def _page(self, request: Request, seen: Visibility) -> Response:
        if request.path == "/":
            return self.assets[INDEX].answer(request)
        if request.path == "/api/live":
            return self._live(request)
        if request.path.startswith(CLUSTERS_PATH):
            name = unquote(request.path.removeprefix(CLUSTERS_PATH))
            found = read_cluster_page(self.fleet, name, seen)
            if found is not None:
                return Response(200, (("Content-Type", "application/json"), UNCACHED), orjson.dumps(found))
        return _text(404, "there is no such page")

    def _live(self, request: Request) -> Response:
        cookie = self._cookie_of(request)
        session = self.viewers.sessions.find(cookie, self.viewers.clock.now())
        if session is None:
            return self._turn_away(request)
        viewer = {"name": session.who.username, "login": "token" if self.viewers.login else "address"}

        async def look() -> Visibility | None:
            return await self.viewers.see(cookie)

        stream = stream_rows(self.fleet, look, viewer) if request.method == "GET" else None
        return Response(200, (("Content-Type", "text/event-stream"), UNCACHED), stream=stream)

    async def _post(self, request: Request) -> Response:
        if not request.header("Origin"):
            return _text(403, "requests without an origin are refused")
        if request.path == "/logout":
            self.viewers.sessions.close(self._cookie_of(request))
            gone = f"{self._set_cookie('')}; Max-Age=0"
            return _see("/login" if self.viewers.login else "/", ("Set-Cookie", gone))
        if not self.viewers.login:
            return _text(404, "there is no such page")
        token = dict(request.form()).get("token", "").strip()
        cookie = await self.viewers.sign_in(token) if token else None
        return _see("/login#refused") if cookie is None else _see("/", ("Set-Cookie", self._set_cookie(cookie)))

    def _turn_away(self, request: Request) -> Response:
        if request.path.startswith("/api/"):
            return _text(401, "sign in first")
        return _see("/login") if self.viewers.login else self.assets[SIGNED_OUT].answer(request, 401)

    def _set_cookie(self, value: str) -> str:
        secure = "; Secure" if self.address.secure else ""
        return f"{self.cookie}={value}; Path=/; HttpOnly; SameSite=Strict{secure}"

    def _cookie_of(self, request: Request) -> str:
        for part in request.header("Cookie").split(";"):
            name, _, value = part.strip().partition("=")
            if name == self.cookie:
                return value
        return ""


def _text(status: int, message: str) -> Response:
    return Response(status, (TEXT, UNCACHED), f"{message}\n".encode())


def _see(path: str, *headers: tuple[str, str]) -> Response:
    return Response(303, (("Location", path), UNCACHED, *headers))
