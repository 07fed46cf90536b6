"""Exchanges a Kubernetes token for a registry token with exactly the allowed actions."""

import asyncio
import base64
import binascii
import re
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta

import orjson
from msgspec import Struct

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may, review_token
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.pki.jwt import TokenSigner
from watchword.runtime.clock import Clock
from watchword.runtime.prometheus import CollectorRegistry, Counter

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
BACKDATE = timedelta(seconds=10)  # the clock of the registry may be behind


class TokenCounts:
    """How requests for registry tokens ended."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._answers = Counter(
            "watchword_registry_token",
            "Requests for a registry token, by how they ended",
            ["result"],
            registry=registry,
        )

    def answered(self, result: str) -> None:
        """Count an answer: granted, refused, invalid or unavailable."""
        self._answers.labels(result).inc()


class TokenServiceOptions(Struct, frozen=True):
    """What the registry is told to trust and to expect."""

    issuer: str  # the `issuer` of the registry's configuration
    service: str  # the `service` of the registry's configuration: the audience of its tokens
    audiences: tuple[str, ...] = ()  # of the Kubernetes tokens; empty: those of the API server
    lifetime: timedelta = timedelta(minutes=5)


class Question(Struct, frozen=True):
    """A request for a registry token."""

    password: Sensitive[str]
    service: str
    scopes: tuple[Scope, ...]


class TokenService(Struct, frozen=True):
    """Answers the requests of the Docker registry token specification, by GET and by POST."""

    client: Client
    signer: TokenSigner
    clock: Clock
    options: TokenServiceOptions
    counts: TokenCounts

    async def handle(self, request: Request) -> Response:
        """Answer one request; every refusal looks the same, whatever its reason."""
        if request.path not in TOKEN_PATHS:
            return _error(404, "NOT_FOUND", "ask for /token")
        question = read_question(request)
        if question is None:
            self.counts.answered("refused")
            return self._unauthorized("give the token of a service account as the password")
        if question.service != self.options.service:
            self.counts.answered("invalid")
            return _error(400, "INVALID", f"this service issues tokens for {self.options.service} alone")
        try:
            who = await review_token(self.client, question.password, audiences=self.options.audiences)
            if who is None:
                self.counts.answered("refused")
                return self._unauthorized("the token is not accepted: it may have expired, or its Secret may be gone")
            allowed = await asyncio.gather(*(self._allowed(who, scope) for scope in question.scopes))
            self.counts.answered("granted")
            return self._token(who, [scope for scope in allowed if scope.actions])
        except KubeError:
            self.counts.answered("unavailable")
            return _error(503, "UNAVAILABLE", "the API server did not answer; try again")

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


def read_question(request: Request) -> Question | None:
    """Read a request; None when it carries no password."""
    if request.method == "POST":
        parameters = request.form()
        fields = dict(parameters)
        password = fields.get("password", "") if fields.get("grant_type") == "password" else ""
    else:
        password, parameters = _basic_password(request.header("Authorization")), request.query
    if not password:
        return None
    service = next((value for name, value in parameters if name == "service"), "")
    scopes = parse_scopes(value for name, value in parameters if name == "scope")
    return Question(Sensitive(password), service, tuple(scopes))


def _basic_password(header: str) -> str:
    scheme, _, encoded = header.partition(" ")
    if scheme.lower() != "basic":
        return ""
    try:
        text = base64.b64decode(encoded.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        return ""
    return text.partition(":")[2]


def _error(status: int, code: str, message: str, *headers: tuple[str, str]) -> Response:
    body = {"errors": [{"code": code, "message": message}], "details": message}
    return Response(status, (("Content-Type", "application/json"), *headers), orjson.dumps(body))
