"""Declares what a process needs before it can work: kinds first, and then objects of them."""

import asyncio
from collections.abc import Iterable
from datetime import timedelta

from watchword.api.admission_policy import is_as_written
from watchword.api.conditions import is_true
from watchword.api.crds.schema import PART_OF, PROJECT
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, labels_of
from watchword.api.resources import CUSTOM_RESOURCE_DEFINITIONS, VALIDATING_ADMISSION_POLICIES
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.diff import Comparison, choose_changes
from watchword.runtime.ensure import ApplyPolicy, apply_object
from watchword.runtime.errors import NotServed

FIRST_POLL_SECONDS = 0.005  # a server that is not busy establishes a kind in a few milliseconds
POLL_SECONDS = 0.1
ATTEMPTS = 50
ESTABLISH_TIMEOUT = timedelta(seconds=30)


async def apply_manifests(client: Client, rows: Iterable[Manifest], *, manager: str) -> None:
    """Apply objects in order, definitions of kinds before all others and together."""
    rows = list(rows)
    definitions = [obj for resource, obj in rows if resource is CUSTOM_RESOURCE_DEFINITIONS]
    await establish_crds(client, definitions, manager=manager)
    for resource, obj in rows:
        if resource is not CUSTOM_RESOURCE_DEFINITIONS:
            await apply(client, resource, obj, manager=manager)


async def _restore_policy(client: Client, resource: Resource, wanted: Object) -> bool:
    """Whether a changed admission policy or binding was put right.

    Applying it would keep what others added: a binding that only warns, or is for some objects only.
    """
    found = await client.find(resource, ObjectKey.of(wanted))
    patch = None if found is None or is_as_written(found, wanted) else choose_changes(found, wanted)
    if patch is None:
        return False
    await client.patch(resource, ObjectKey.of(wanted), patch)
    return True


async def establish_crds(client: Client, definitions: Iterable[Object], *, manager: str) -> None:
    """Apply the definitions that are missing or differ, and wait until their kinds are served; `NotServed` if not."""
    await asyncio.gather(*(_establish_crd(client, definition, manager) for definition in definitions))


def install_policy(manager: str) -> ApplyPolicy:
    """Return how an installation applies its objects: versions of a kind exactly, or a removed field would stay."""
    return ApplyPolicy(comparison=Comparison.EXACT_LISTS, manager=manager, force=True, immutable=())


async def _establish_crd(client: Client, definition: Object, manager: str) -> None:
    key = ObjectKey.of(definition)
    # Read first: that costs a server less than to validate a definition, and mostly it is there.
    found = await client.find(CUSTOM_RESOURCE_DEFINITIONS, key)
    if found is not None and not is_own_definition(found, manager):
        objection = validate_foreign_definition(found, definition)
        if objection:
            raise NotServed(objection)
    else:
        wanted = with_stored_versions(definition, found)
        found = await apply_object(client, CUSTOM_RESOURCE_DEFINITIONS, wanted, found, install_policy(manager))
    try:
        async with asyncio.timeout(ESTABLISH_TIMEOUT.total_seconds()):
            pause = FIRST_POLL_SECONDS
            while not is_true(found, "Established"):
                await asyncio.sleep(pause)
                pause = min(2 * pause, POLL_SECONDS)
                found = await client.get(CUSTOM_RESOURCE_DEFINITIONS, key)
    except TimeoutError as cause:
        waited = int(ESTABLISH_TIMEOUT.total_seconds())
        raise NotServed(
            f"{key.name} is not served after {waited} s: `kubectl describe crd {key.name}` says why"
        ) from cause


async def apply(client: Client, resource: Resource, obj: Object, *, manager: str) -> None:
    """Apply one object; a kind that was established just now may take a moment until every path to it is."""
    for attempt in range(ATTEMPTS):
        try:
            if resource.group == VALIDATING_ADMISSION_POLICIES.group and await _restore_policy(client, resource, obj):
                return
            await apply_object(client, resource, obj, None, install_policy(manager))
        except NotFound:
            # A server before Kubernetes 1.30 serves no admission policies: the hub's guard reports that.
            if resource.group == VALIDATING_ADMISSION_POLICIES.group:
                return
            if attempt == ATTEMPTS - 1:
                raise
            await asyncio.sleep(POLL_SECONDS)
        else:
            return


def with_stored_versions(definition: Object, found: Object | None) -> Object:
    """Return a definition with the versions that objects may still be stored in, which a server does not let go."""
    if found is None:
        return definition
    stored = (found.get("status") or {}).get("storedVersions") or ()
    ours = {row["name"] for row in definition["spec"]["versions"]}
    kept = [
        {**row, "storage": False}
        for row in found["spec"]["versions"]
        if row["name"] in stored and row["name"] not in ours
    ]
    spec = definition["spec"]
    return {**definition, "spec": {**spec, "versions": [*spec["versions"], *kept]}} if kept else definition


def is_own_definition(found: Object, manager: str) -> bool:
    """Whether a definition is of this project, whichever program applied it; those of other systems are not changed."""
    managers = {str(row.get("manager")) for row in found["metadata"].get("managedFields") or ()}
    return labels_of(found).get(PART_OF) == PROJECT or manager in managers


def validate_foreign_definition(found: Object, definition: Object) -> str:
    """Return why another system's definition of a kind is unusable; empty when it serves our storage versions."""
    needed = {row["name"] for row in definition["spec"]["versions"] if row["storage"]}
    missing = needed - {row["name"] for row in found["spec"]["versions"] if row["served"]}
    if not missing:
        return ""
    name = found["metadata"]["name"]
    return (
        f"{name} was installed by another system and does not serve {', '.join(sorted(missing))}: bring that system up "
        f"to date, or remove it and label the definition {PART_OF}={PROJECT} to have it replaced"
    )
