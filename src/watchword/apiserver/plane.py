"""A whole control plane in one object: kinds, store, access rules, controllers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from watchword.api.http import Request, Response
from watchword.apiserver.authz.model import Authorizer
from watchword.apiserver.kinds import BUILTINS
from watchword.apiserver.model import Admit, Authenticate, Handler, Now, Service
from watchword.apiserver.registry.kind_table import KindTable
from watchword.apiserver.registry.ownership import Ownership
from watchword.apiserver.registry.pipeline import Pipeline
from watchword.apiserver.registry.registry import ObjectRegistry, verbs
from watchword.apiserver.registry.system_fields import Entropy
from watchword.apiserver.registry.tools import Tools
from watchword.apiserver.server import ApiServer, Parts, ResourcePlace
from watchword.apiserver.serving.presenting import Presenter
from watchword.apiserver.serving.resources import ResourceServer
from watchword.apiserver.store.model import Store


@dataclass(frozen=True)
class Access:
    """Who is let in, and what happens to what they write."""

    authenticate: Authenticate
    authorizer: Authorizer
    mutating: tuple[Admit, ...] = ()
    validating: tuple[Admit, ...] = ()
    handlers: Mapping[ResourcePlace, Handler] = field(default_factory=dict)
    paths: Mapping[str, Handler] = field(default_factory=dict)
    services: tuple[Service, ...] = ()


class ControlPlane:
    """What tests, fleets and the command line start: a Kubernetes API over a store."""

    def __init__(self, store: Store, now: Now, access: Access, *, entropy: Entropy = os.urandom) -> None:
        self.store = store
        self.kinds = KindTable(BUILTINS)
        self.registry = ObjectRegistry(store, self.kinds, now=now, entropy=entropy)
        objects = self.registry.objects
        tools = Tools(
            objects,
            self.kinds,
            Pipeline(access.mutating, access.validating),
            Ownership(now),
            now,
            entropy,
        )
        self._services = access.services
        self._server = ApiServer(
            Parts(
                authenticate=access.authenticate,
                authorizer=access.authorizer,
                kinds=self.kinds,
                resources=ResourceServer(verbs(tools), Presenter(objects, now)),
                handlers=access.handlers,
                paths=access.paths,
            )
        )

    async def start(self) -> None:
        """Begin the controllers; afterwards requests are answered as a running cluster would."""
        for service in self._services:
            await service.start()

    async def stop(self) -> None:
        """End the controllers and close the store."""
        for service in reversed(self._services):
            await service.stop()
        await self.store.close()

    async def handle(self, request: Request) -> Response:
        """Answer one request."""
        return await self._server.handle(request)
