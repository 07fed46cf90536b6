"""A whole control plane in one object: kinds, store, access rules, controllers."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from watchword.api.http import Request, Response
from watchword.apiserver.access.config import AccessControlFactory
from watchword.apiserver.background import BackgroundTasks, TaskStatus
from watchword.apiserver.crd.controller import CustomResourceController
from watchword.apiserver.documents.discovery import DiscoveryHandler
from watchword.apiserver.kinds.catalog import BUILTINS
from watchword.apiserver.serving.model import Entropy, Handler, HandlerRequest, Now
from watchword.apiserver.serving.negotiation import NOT_FOUND
from watchword.apiserver.serving.object_storage import KindTable
from watchword.apiserver.serving.pipeline import VerbDependencies
from watchword.apiserver.serving.registry import ObjectRegistry
from watchword.apiserver.serving.resources import ResourceServer
from watchword.apiserver.serving.server import ApiServer, Observe
from watchword.apiserver.serving.watch import BOOKMARK_EVERY
from watchword.apiserver.store.model import Store

if TYPE_CHECKING:
    from watchword.apiserver.documents.openapi import OpenApiHandler
    from watchword.apiserver.listener import RequestRateLimiter

_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))
_HEADERS = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
_METRICS: tuple[tuple[str, str, str, Callable[[TaskStatus], int]], ...] = (
    ("healthy", "gauge", "Whether the last run of a background task succeeded", lambda status: int(status.is_healthy)),
    ("runs_total", "counter", "Runs of a background task", lambda status: status.runs),
    ("failures_total", "counter", "Failed runs of a background task", lambda status: status.failures),
)


class HealthHandler:
    """Answers /healthz, /livez, /readyz and /metrics; only readiness waits for the controllers and background tasks."""

    def __init__(self, tasks: Callable[[], Mapping[str, TaskStatus]]) -> None:
        self.ready = False
        self._tasks = tasks

    async def handle(self, request: HandlerRequest) -> Response:
        endpoint, _, check = request.info.path.strip("/").partition("/")
        checks = self._checks(endpoint)
        if check:
            if check not in checks:
                return NOT_FOUND
            return _health_response(endpoint, {check: checks[check]}, verbose=False)
        excluded = {value for name, value in request.query if name == "exclude"}
        kept = {name: fine for name, fine in checks.items() if name not in excluded}
        verbose = any(name == "verbose" for name, _ in request.query)
        return _health_response(endpoint, kept, verbose=verbose)

    def _checks(self, endpoint: str) -> dict[str, bool]:
        checks = {"ping": True, "log": True, "etcd": True}
        if endpoint == "readyz":
            checks["poststarthook/controllers"] = self.ready
            checks.update({f"background/{name}": status.is_healthy for name, status in self._tasks().items()})
        return checks

    async def metrics(self, _: HandlerRequest) -> Response:
        """Answer in the text format, which needs no library for so little."""
        lines: list[str] = []
        for name, kind, text, read in _METRICS:
            metric = f"watchword_apiserver_background_task_{name}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
            lines += [f'{metric}{{task="{task}"}} {read(status)}' for task, status in sorted(self._tasks().items())]
        return Response(200, _HEADERS, "\n".join([*lines, ""]).encode())


def _health_response(endpoint: str, checks: dict[str, bool], *, verbose: bool) -> Response:
    failed = [name for name, fine in checks.items() if not fine]
    if not failed and not verbose:
        return Response(200, _TEXT, b"ok")
    lines = [f"[+]{name} ok" if fine else f"[-]{name} failed: reason withheld" for name, fine in checks.items()]
    lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    return Response(500 if failed else 200, _TEXT, ("\n".join(lines) + "\n").encode())


class ControlPlane:
    """A Kubernetes API over a store, as tests, fleets and the command line start it.

    `compose` builds the access rules: `access/config.py::access_control_factory` everywhere but in tests of the verbs.
    """

    def __init__(  # noqa: PLR0913 - store, clock and access; the rest is named and seldom said
        self,
        store: Store,
        now: Now,
        compose: AccessControlFactory,
        *,
        entropy: Entropy = os.urandom,
        limit: "RequestRateLimiter | None" = None,
        observe: Observe | None = None,
        bookmark_every: float = BOOKMARK_EVERY,
    ) -> None:
        self.store = store
        self.now = now
        self.kinds = KindTable(BUILTINS)
        self.registry = ObjectRegistry(store, self.kinds, now=now, entropy=entropy)
        self.definitions = CustomResourceController(self.registry, self.kinds, now)
        self.background = BackgroundTasks(())
        self.health = HealthHandler(lambda: self.background.status)
        self._openapi_documents: OpenApiHandler | None = None
        self._bookmark_every = bookmark_every
        self._access = compose(self.registry)
        self._server = self._compose_server(entropy, limit, observe)

    async def start(self) -> None:
        await self.definitions.start()  # first: the others follow every kind there is
        for service in self._access.services:
            await service.start()
        await self.background.start()
        self.health.ready = True

    async def stop(self) -> None:
        self.health.ready = False
        await self.background.stop()
        for service in reversed(self._access.services):
            await service.stop()
        await self.definitions.stop()
        await self.store.close()

    async def handle(self, request: Request) -> Response:
        return await self._server.handle(request)

    def _compose_server(
        self, entropy: Entropy, limit: "RequestRateLimiter | None", observe: Observe | None
    ) -> ApiServer:
        access, objects = self._access, self.registry.objects
        tools = VerbDependencies(
            objects, self.kinds, self.now, entropy, access.mutating, access.validating, self._bookmark_every
        )
        return ApiServer(
            authenticate=access.authenticate,
            authorizer=access.authorizer,
            kinds=self.kinds,
            resources=ResourceServer(tools, access.authorizer),
            handlers=access.handlers,
            paths={**self._documents(), **access.paths},
            limit=limit,
            observe=observe,
            now=self.now,
        )

    async def _openapi(self, request: HandlerRequest) -> Response:
        if self._openapi_documents is None:
            from watchword.apiserver.documents.openapi import OpenApiHandler

            self._openapi_documents = OpenApiHandler(self.kinds.all)
        return await self._openapi_documents.handle(request)

    def _documents(self) -> Mapping[str, Handler]:
        discovery = DiscoveryHandler(self.kinds.all, lambda: self.kinds.generation)
        health = {f"/{name}{end}": self.health.handle for name in ("healthz", "livez", "readyz") for end in ("", "/")}
        return {
            **dict.fromkeys(("/api", "/api/", "/apis", "/apis/", "/version"), discovery.handle),
            "/openapi/": self._openapi,
            **health,
            "/metrics": self.health.metrics,
        }
