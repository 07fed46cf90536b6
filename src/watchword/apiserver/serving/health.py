"""Liveness and readiness of the server, in the format of kube-apiserver."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from watchword.api.http import Response
from watchword.apiserver.background import TaskStatus
from watchword.apiserver.model import HandlerRequest

_TEXT = (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff"))


class HealthHandler:
    """Answers /healthz, /livez and /readyz; only readiness waits for the controllers and the background tasks."""

    def __init__(self, tasks: Callable[[], Mapping[str, TaskStatus]] = dict) -> None:
        self.ready = False
        self._tasks = tasks

    async def handle(self, request: HandlerRequest) -> Response:
        """Handle one probe."""
        endpoint, _, check = request.info.path.strip("/").partition("/")
        checks = self._checks(endpoint)
        if check:
            if check not in checks:
                return Response(404, _TEXT, b"404 page not found\n")
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


def _health_response(endpoint: str, checks: dict[str, bool], *, verbose: bool) -> Response:
    failed = [name for name, fine in checks.items() if not fine]
    if not failed and not verbose:
        return Response(200, _TEXT, b"ok")
    lines = [f"[+]{name} ok" if fine else f"[-]{name} failed: reason withheld" for name, fine in checks.items()]
    lines.append(f"{endpoint} check {'failed' if failed else 'passed'}")
    return Response(500 if failed else 200, _TEXT, ("\n".join(lines) + "\n").encode())
