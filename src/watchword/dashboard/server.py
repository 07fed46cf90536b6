"""Answers the requests of browsers: read-only, for signed-in sessions, under a strict content policy."""

import hashlib
from collections.abc import Mapping
from importlib.resources import files
from urllib.parse import unquote, urlsplit

import orjson
import structlog
from msgspec import Struct, field

from watchword.api.http import Request, Response
from watchword.dashboard.cluster_page import read_cluster_page
from watchword.dashboard.fleet import Fleet
from watchword.dashboard.live import stream_rows
from watchword.dashboard.viewers import Viewers, Visibility
from watchword.kube.errors import KubeError

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
            return await self._redeem(request)
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

    async def _redeem(self, request: Request) -> Response:
        """Exchange the code for a cookie; the page that answers opens the address without the code.

        A redirect would not do: after a link from another site, browsers withhold the cookie from its target.
        """
        cookie = await self.viewers.sign_in(request.parameter("code"))
        if cookie is None:
            return self._signed_out(request)
        page = self.assets[SIGNED_IN]
        return Response(
            200,
            (("Content-Type", page.content_type), UNCACHED, ("Set-Cookie", self._set_cookie(cookie))),
            page.content,
        )

    def _turn_away(self, request: Request) -> Response:
        if request.path.startswith("/api/"):
            return _text(401, "sign in first")
        return _see("/login") if self.viewers.login else self._signed_out(request)

    def _signed_out(self, request: Request) -> Response:
        return self.assets[SIGNED_OUT].answer(request, 401)

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
