"""What Prometheus may know about a control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from watchword.api.http import Response
from watchword.apiserver.background import TaskStatus
from watchword.apiserver.model import HandlerRequest

_HEADERS = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
_METRICS: tuple[tuple[str, str, str, Callable[[TaskStatus], int]], ...] = (
    ("healthy", "gauge", "Whether the last run of a background task succeeded", lambda status: int(status.is_healthy)),
    ("runs_total", "counter", "Runs of a background task", lambda status: status.runs),
    ("failures_total", "counter", "Failed runs of a background task", lambda status: status.failures),
)


class MetricsHandler:
    """Answers /metrics in the text format, which needs no library for so little."""

    def __init__(self, tasks: Callable[[], Mapping[str, TaskStatus]]) -> None:
        self._tasks = tasks

    async def handle(self, _: HandlerRequest) -> Response:
        """Return the present values."""
        lines: list[str] = []
        for name, kind, text, read in _METRICS:
            metric = f"watchword_apiserver_background_task_{name}"
            lines += [f"# HELP {metric} {text}", f"# TYPE {metric} {kind}"]
            lines += [f'{metric}{{task="{task}"}} {read(status)}' for task, status in sorted(self._tasks().items())]
        return Response(200, _HEADERS, "\n".join([*lines, ""]).encode())
