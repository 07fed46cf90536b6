"""What both reconcilers write on their own object: finalizer and status."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.api.conditions import Condition
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, finalizers_of
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.applier import generations, related_resources
from watchword.runtime.ensure import with_preconditions
from watchword.runtime.status import StatusChange, StatusWriter


async def report_status(
    status: StatusWriter, resource: Resource, found: Object, said: Iterable[Condition], rows: Iterable[Manifest] = ()
) -> None:
    """Write conditions and what was deployed, in one request and only when something differs."""
    fields: Object = {"observedGeneration": found["metadata"].get("generation")}
    deployed = list(rows)
    if deployed:
        fields |= {"generations": generations(deployed), "relatedResources": related_resources(deployed)}
    await status.write(resource, found, StatusChange(conditions=tuple(said), fields=fields))


async def add_finalizer(client: Client, resource: Resource, found: Object, finalizer: str) -> Object:
    """Make sure that nothing of the object is forgotten when it is deleted; return it as it then is."""
    if finalizer in finalizers_of(found):
        return found
    patch = with_preconditions(found, {"metadata": {"finalizers": [*finalizers_of(found), finalizer]}})
    return await client.patch(resource, ObjectKey.of(found), patch)


async def remove_finalizer(client: Client, resource: Resource, found: Object, finalizer: str) -> None:
    """Let the object go."""
    kept = [name for name in finalizers_of(found) if name != finalizer]
    if len(kept) == len(finalizers_of(found)):
        return
    try:
        await client.patch(
            resource, ObjectKey.of(found), with_preconditions(found, {"metadata": {"finalizers": kept or None}})
        )
    except NotFound:
        return
