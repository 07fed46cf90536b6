"""What every built-in controller has in common: it is triggered by changes and works on keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from watchword.api.meta import Object, Resource
from watchword.apiserver.controllers.worker import Worker
from watchword.apiserver.model import Registry

Watches = Mapping[Resource, Callable[[str, Object], None]]
"""What is listened to, and who listens."""


class BuiltInController(Protocol):
    """One controller: its worker, and what triggers it."""

    worker: Worker[Any]

    def watches(self) -> Watches:
        """Return the subscriptions that trigger the worker."""
        ...


class ControllerService(Struct):
    """Runs one controller as a service."""

    registry: Registry
    controller: BuiltInController
    _stops: list[Callable[[], None]] = field(default_factory=list)

    async def start(self) -> None:
        """Start; existing objects trigger the worker first."""
        self.controller.worker.start()
        for resource, listener in self.controller.watches().items():
            self._stops.append(self.registry.subscribe(resource, listener))

    async def stop(self) -> None:
        """End; returns when nothing of it runs any more."""
        while self._stops:
            self._stops.pop()()
        await self.controller.worker.stop()
