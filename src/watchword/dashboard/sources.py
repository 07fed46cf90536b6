"""What the dashboard watches, and which of it the server lets it read."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.pull_secrets import DOCKERCFG_TYPE
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.health.facts import (
    ACCOUNTS,
    EVENT_ROWS,
    EVENT_SOURCE,
    OPTIONAL,
    PULL_SECRETS,
    SOURCES,
    HubFacts,
    facts_by_source,
)
from watchword.health.hub_observer import HubObserver
from watchword.kube.access_reviews import ResourceAccess, can_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, NotFound
from watchword.kube.request_sender import decode
from watchword.pullsecrets.pull_secret import project_pull_secret
from watchword.runtime.informer import WatchScope
from watchword.runtime.raw_objects import Projection

PROBE_EVERY = 30.0  # seconds: kinds may be installed and rights granted while the dashboard runs


class Source(Struct, frozen=True):
    """One kind, or a part of it, that the dashboard reads."""

    name: str
    resource: Resource
    scope: WatchScope
    divisible: bool = False  # rights may be granted for the namespace of one cluster alone
    optional: bool = False  # a server without the kind lacks nothing
    project: Projection | None = None

    def access(self, part: str = "") -> ResourceAccess:
        if part and self.resource is MANAGED_CLUSTERS:
            return ResourceAccess("get", self.resource, ObjectKey.cluster(part))
        if self.single_name:
            return ResourceAccess("get", self.resource, ObjectKey(self.scope.namespace, self.single_name))
        return ResourceAccess("list", self.resource, ObjectKey(part or self.scope.namespace, ""))

    def holds(self, obj: Object) -> bool:
        metadata, (field, _, value) = obj["metadata"], self.scope.fields.partition("=")
        actual = {"": "", "metadata.name": metadata["name"]}.get(field, obj.get(field))
        return self.scope.covers(metadata.get("namespace") or "") and actual == value

    def part(self, key: ObjectKey) -> str:
        """Return the part that an object belongs to: a cluster or namespace, empty where rights are not divisible."""
        return (key.namespace or key.name) if self.divisible else ""

    @property
    def single_name(self) -> str:
        """The name of the one object that it consists of, empty for many."""
        field, _, name = self.scope.fields.partition("=")
        return name if field == "metadata.name" else ""


DASHBOARD_SOURCES: tuple[Source, ...] = (
    *(Source(name, *where, name in ("clusters", "add-ons"), name in OPTIONAL) for name, where in SOURCES.items()),
    *(Source(ACCOUNTS, kind, WatchScope(), divisible=True, optional=True) for kind in ACCOUNT_KINDS),
    Source(
        PULL_SECRETS, SECRETS, WatchScope(fields=f"type={DOCKERCFG_TYPE}"), divisible=True, project=project_pull_secret
    ),
    Source(EVENT_ROWS, *EVENT_SOURCE, divisible=True),
)

SHOWN_KINDS = frozenset(source.resource for source in DASHBOARD_SOURCES)
CLUSTERS, REQUESTS, HUB_SOURCE = (
    next(source for source in DASHBOARD_SOURCES if source.name == name)
    # What is found of the hub names tokens, Secrets and requests: a viewer sees it who may list join tokens.
    for name in ("clusters", "certificate requests", "join tokens")
)


SourcedObject: TypeAlias = tuple[Source, Object]
"""An object, and the source that it was read from."""


def find_source(resource: Resource, obj: Object) -> Source | None:
    """Return the source that an object belongs to, None when the dashboard does not show it."""
    return next((source for source in DASHBOARD_SOURCES if source.resource is resource and source.holds(obj)), None)


def gather_facts(objects: Iterable[SourcedObject]) -> HubFacts:
    found: dict[str, list[Object]] = {}
    for source, obj in objects:
        found.setdefault(source.name, []).append(obj)
    return facts_by_source(found)


async def probe_sources(client: Client, sources: Sequence[Source] = DASHBOARD_SOURCES) -> Mapping[Source, str]:
    """Return why each source that cannot be read cannot; an empty reason means that nothing is missing."""
    answers = await asyncio.gather(*(_probe(client, source) for source in sources))
    return {source: answer for source, answer in zip(sources, answers, strict=True) if answer is not None}


async def _probe(client: Client, source: Source) -> str | None:
    scope = source.scope
    query = {"limit": "1", "labelSelector": scope.labels, "fieldSelector": scope.fields}
    try:
        decode(await client.request("GET", source.resource.path(namespace=scope.namespace), query=query))
    except NotFound:
        return "" if source.optional else "the server does not know the kind: is this a hub?"
    except Forbidden:
        return "the server does not let you read them"
    watch = ResourceAccess("watch", source.resource, ObjectKey(scope.namespace, source.single_name))
    return None if await can_i(client, watch) else "the server does not let you watch them"


async def follow_new_sources(client: Client, observer: HubObserver, missing: Sequence[Source]) -> None:
    """Follow what could not be read at first, as soon as it can be; runs until cancelled."""
    left = list(missing)
    while left:
        await asyncio.sleep(PROBE_EVERY)
        try:
            still = await probe_sources(client, left)
        except KubeError:  # the watches report an unreachable server
            continue
        for source in [each for each in left if each not in still]:
            observer.follow(source.resource, source.scope, source.project)
            observer.unseen.pop(source.name, None)
        left = list(still)
