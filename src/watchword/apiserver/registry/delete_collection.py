"""The verb deletecollection: every object that the selectors mean."""

from __future__ import annotations

from msgspec import Struct

from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.delete import Delete
from watchword.apiserver.registry.delete_options import DeleteOptions
from watchword.apiserver.registry.options import ListOptions
from watchword.apiserver.registry.read import ListPage, Read
from watchword.apiserver.registry.write_request import WriteRequest


class DeleteCollection(Struct, frozen=True):
    """Deletes object by object; one that is already gone does not stop the rest."""

    read: Read
    delete: Delete

    async def __call__(
        self, kind: ResourceKind, namespace: str, chosen: ListOptions, options: DeleteOptions, call: WriteRequest
    ) -> ListPage:
        """Delete what a list with the same options shows, and return that list."""
        page = await self.read.page(kind, namespace, chosen)
        for record in page.records:
            try:
                await self.delete(kind, record.key, options, call)
            except ApiError as refusal:
                if refusal.reason != "NotFound":
                    raise
        return page
