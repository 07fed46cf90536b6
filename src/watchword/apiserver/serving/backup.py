"""Answers with a copy of the data file, for `watchword backup` of a running control plane."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from watchword.api.http import Response
from watchword.apiserver.model import HandlerRequest

BACKUP_PATH = "/watchword/backup"
"""RBAC guards it as a non-resource URL: of the built-in roles, only cluster-admin has the right to it."""


class CopiedStore(Protocol):
    """A store that can be copied while it is in use."""

    async def copy(self) -> bytes: ...


class BackupHandler(Struct, frozen=True):
    """Holds every object of one revision; Secrets are encrypted in it as they are on disk."""

    store: CopiedStore

    async def handle(self, request: HandlerRequest) -> Response:
        if request.method != "GET":
            return Response(405, (("Allow", "GET"),))
        return Response(200, (("Content-Type", "application/vnd.sqlite3"),), await self.store.copy())
