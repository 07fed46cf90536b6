"""The token service of a registry: exchanges a Kubernetes token for one with exactly the allowed actions."""

import asyncio
import base64
import os
import re
import secrets
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import structlog
from msgspec import Struct

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, review_token
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.pki.authority import Authority
from watchword.pki.jwt import TokenSigner
from watchword.runtime.clock import Clock
from watchword.runtime.health import HealthEndpoints, serve_health
from watchword.runtime.metrics import Metrics
from watchword.runtime.prometheus import CollectorRegistry, CounterSeries, MetricFamily

IMAGE_STREAMS = Resource("image.openshift.io", "v1", "imagestreams", "ImageStream")
"""The resource in whose `layers` subresource OpenShift expresses the rights to images.

RBAC needs no such resource to be served, so the roles system:image-puller and system:image-pusher work everywhere.
"""

VERBS = {"pull": "get", "push": "update", "delete": "delete"}
MAXIMUM_SCOPES = 32
REPOSITORY = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)+", re.ASCII)


class Scope(Struct, frozen=True):
    """Actions on one resource of a registry."""

    type: str
    name: str
    actions: tuple[str, ...]

    def claim(self) -> dict[str, object]:
        """Return it as the `access` claim of a registry token has it."""
        return {"type": self.type, "name": self.name, "actions": list(self.actions)}


def parse_scopes(values: Iterable[str]) -> list[Scope]:
    """Read the scope parameters; several may stand in one, separated by spaces. Unreadable ones ask for nothing."""
    words = [word for value in values for word in value.split()][:MAXIMUM_SCOPES]
    return [scope for word in words if (scope := _parse(word)) is not None]


def required_access(scope: Scope, action: str) -> ResourceAccess | None:
    """Return the right that an action needs; None when no right allows it.

    The first part of a repository's name is the namespace, the rest is the image stream.
    """
    if scope.type != "repository" or action not in VERBS or not REPOSITORY.fullmatch(scope.name):
        return None
    namespace, _, name = scope.name.partition("/")
    return ResourceAccess(VERBS[action], IMAGE_STREAMS, ObjectKey(namespace, name), "layers")


def _parse(word: str) -> Scope | None:
    kind, _, rest = word.partition(":")
    name, _, actions = rest.rpartition(":")  # a name may hold the port of its registry
    if not kind or not name:
        return None
    named = tuple(dict.fromkeys(action for action in actions.split(",") if action))
    return Scope(kind, name, tuple(VERBS) if named == ("*",) else named)


TOKEN_PATHS = ("/token", "/auth")
RESULTS = {200: "granted", 400: "invalid", 401: "refused", 503: "unavailable"}
BACKDATE = timedelta(seconds=10)  # the clock of the registry may be behind


def token_counter(registry: CollectorRegistry) -> MetricFamily[CounterSeries]:
    """Return what counts answers: granted, refused, invalid or unavailable."""
    about = "Requests for a registry token, by how they ended"
    return registry.counter("watchword_registry_token", about, "result")


class TokenServiceOptions(Struct, frozen=True):
    """What the registry is told to trust and to expect."""

    issuer: str  # the `issuer` of the registry's configuration
    service: str  # the `service` of the registry's configuration: the audience of its tokens
    audiences: tuple[str, ...] = ()  # of the Kubernetes tokens; empty: those of the API server
    lifetime: timedelta = timedelta(minutes=5)


class TokenService(Struct, frozen=True):
    """Answers the requests of the Docker registry token specification, by GET and by POST."""

    client: Client
    signer: TokenSigner
    clock: Clock
    options: TokenServiceOptions
    answers: MetricFamily[CounterSeries]

    async def handle(self, request: Request) -> Response:
        """Answer one request; every refusal looks the same, whatever its reason."""
        if request.path not in TOKEN_PATHS:
            return _error(404, "NOT_FOUND", "ask for /token")
        response = await self._answer(request)
        self.answers.labels(RESULTS[response.status]).inc()
        return response

    async def _answer(self, request: Request) -> Response:
        password, parameters = read_password(request)
        if not password:
            return self._unauthorized("give the token of a service account as the password")
        if next((value for name, value in parameters if name == "service"), "") != self.options.service:
            return _error(400, "INVALID", f"this service issues tokens for {self.options.service} alone")
        scopes = parse_scopes(value for name, value in parameters if name == "scope")
        try:
            who = await review_token(self.client, password, audiences=self.options.audiences)
            if who is None:
                return self._unauthorized("the token is not accepted: it may have expired, or its Secret may be gone")
            allowed = await asyncio.gather(*(self._allowed(who, scope) for scope in scopes))
        except KubeError:
            return _error(503, "UNAVAILABLE", "the API server did not answer; try again")
        return self._token(who, [scope for scope in allowed if scope.actions])

    async def _allowed(self, who: UserIdentity, scope: Scope) -> Scope:
        needed = [(action, required_access(scope, action)) for action in scope.actions]
        answers = [(action, access is not None and await may(self.client, who, access)) for action, access in needed]
        return Scope(scope.type, scope.name, tuple(action for action, allowed in answers if allowed))

    def _token(self, who: UserIdentity, granted: Sequence[Scope]) -> Response:
        now, lifetime = self.clock.now(), self.options.lifetime
        claims = {
            "iss": self.options.issuer,
            "sub": who.username,
            "aud": self.options.service,
            "iat": int(now.timestamp()),
            "nbf": int((now - BACKDATE).timestamp()),
            "exp": int((now + lifetime).timestamp()),
            "jti": secrets.token_urlsafe(16),
            "access": [scope.claim() for scope in granted],
        }
        token = self.signer.sign(claims).reveal()
        seconds = int(lifetime.total_seconds())
        body = {"token": token, "access_token": token, "expires_in": seconds, "issued_at": rfc3339(now)}
        headers = (("Content-Type", "application/json"), ("Cache-Control", "no-store"))
        return Response(200, headers, orjson.dumps(body))

    def _unauthorized(self, message: str) -> Response:
        challenge = ("WWW-Authenticate", f'Basic realm="{self.options.service}", charset="UTF-8"')
        return _error(401, "UNAUTHORIZED", message, challenge)


def read_password(request: Request) -> tuple[Sensitive[str], Iterable[tuple[str, str]]]:
    """Return the password of a request, empty when it carries none, and its parameters."""
    if request.method != "POST":
        return Sensitive(_basic_password(request.header("Authorization"))), request.query
    parameters = request.form()
    fields = dict(parameters)
    return Sensitive(fields.get("password", "") if fields.get("grant_type") == "password" else ""), parameters


def _basic_password(header: str) -> str:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except ValueError:  # no base64, or no UTF-8 inside
        return ""
    return text.partition(":")[2]


def _error(status: int, code: str, message: str, *headers: tuple[str, str]) -> Response:
    body = {"errors": [{"code": code, "message": message}], "details": message}
    return Response(status, (("Content-Type", "application/json"), *headers), orjson.dumps(body))


LIMITS = ServerLimits(connections=1024, header_bytes=64 * 1024, body_bytes=64 * 1024, request_seconds=10.0)


class RegistryAuthOptions(Struct, frozen=True):
    """Where the token service listens and what it signs with."""

    service: TokenServiceOptions
    serve: tuple[str, int]
    authority: Authority
    tls: ssl.SSLContext | None = None
    health: tuple[str, int] | None = None


async def run_registry_auth(
    client: Client,
    options: RegistryAuthOptions,
    *,
    clock: Clock,
    stop: asyncio.Event,
    started: Callable[[int], None] = lambda _: None,
) -> None:
    """Serve registry tokens until asked to stop; `started` is told the port."""
    metrics = Metrics()
    signer = TokenSigner(options.authority.key, (options.authority.certificate.der,))
    service = TokenService(client, signer, clock, options.service, token_counter(metrics.registry))
    server = HttpServer(service.handle, LIMITS, context=options.tls)
    log: Any = structlog.get_logger("watchword.registry-auth")
    async with AsyncExitStack() as stack:
        if options.health is not None:
            await stack.enter_async_context(serve_health(HealthEndpoints(metrics.registry), *options.health))
        port = await server.start(*options.serve)
        stack.push_async_callback(server.stop)
        log.info("serving", host=options.serve[0], port=port, service=options.service.service)
        started(port)
        await stop.wait()


def load_signing_authority(key: Path, certificate: Path, *, now: datetime, create: bool = False) -> Authority:
    """Return the key and certificate that sign registry tokens; with `create`, make them when neither exists."""
    if create and not key.exists() and not certificate.exists():
        made = Authority.make("watchword-registry-auth", now=now)
        # Of two processes that start at once one fails: key and certificate have to be of the same.
        handle = os.open(key, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(made.key.pem.reveal())
        certificate.write_bytes(made.certificate.pem)
    return Authority.from_pem(certificate.read_bytes(), key.read_bytes())


def serving_tls(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate, key)
    return context
