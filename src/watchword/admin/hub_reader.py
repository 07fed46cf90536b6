"""Reads the facts about a hub once, for commands that print and end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from watchword.admin.hub_observer import SERVER_SOURCES, SOURCES, read_authorities, read_tokens, sort_by_creation
from watchword.admin.inventory_rows import HubFacts
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, Resource
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, NotFound
from watchword.runtime.informer import WatchScope


async def read_hub_facts(client: Client) -> HubFacts:
    """Read everything at once; what this user may not see is named in `unseen`."""
    names = list(SOURCES)
    answers = await asyncio.gather(*(_read(client, *SOURCES[name]) for name in names))
    found: dict[str, Sequence[Object]] = {}
    unseen: dict[str, str] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, str):
            unseen[name] = answer
        else:
            found[name] = answer
    return HubFacts(
        clusters=found.get("clusters", ()),
        addons=found.get("add-ons", ()),
        requests=sort_by_creation(found.get("certificate requests", ())),
        tokens=read_tokens(found.get("join tokens", ())),
        authorities=read_authorities(found.get("the hub's authority", ())),
        accounts=await _read_accounts(client),
        servers=[obj for name in SERVER_SOURCES for obj in found.get(name, ())],
        unseen=unseen,
    )


async def _read_accounts(client: Client) -> Sequence[Object]:
    """Return the managed service accounts; none where the add-on was never installed."""
    answers = await asyncio.gather(*(_read(client, kind, WatchScope()) for kind in ACCOUNT_KINDS))
    return [obj for answer in answers if not isinstance(answer, str) for obj in answer]


async def _read(client: Client, resource: Resource, scope: WatchScope) -> Sequence[Object] | str:
    try:
        listed = await client.list(resource, namespace=scope.namespace, labels=scope.labels, fields=scope.fields)
    except NotFound:
        return "the server does not know the kind: is this a hub?"
    except Forbidden:
        return "the server does not let you read them"
    return listed.items
