"""Waits for a state by watching it, in the loop's own time."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

import orjson

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.kube.client import Client
from watchword.kube.watch import ObjectChange, Snapshot, WatchUpdate, list_and_watch
from watchword.testing.errors import EventuallyTimeout
from watchword.testing.virtual_time import VirtualLoop

ObjectsByKey = dict[ObjectKey, Object]
PATIENCE = 30.0
IN_REAL_TIME = 4  # factor for real processes, which share the machine; only failing tests wait so long
SECRET_FIELDS = ("data", "stringData")


def exists(obj: Object | None) -> bool:
    return obj is not None


def is_gone(obj: Object | None) -> bool:
    return obj is None


async def eventually(
    client: Client,
    resource: Resource,
    key: ObjectKey,
    predicate: Callable[[Object | None], bool] = exists,
    *,
    within: float = PATIENCE,
) -> Object:
    """Wait until the predicate holds for one object (None while absent); return it, empty when absent."""
    scope = f"metadata.name={key.name}"
    state = await eventually_all(
        client, resource, lambda found: predicate(found.get(key)), namespace=key.namespace, fields=scope, within=within
    )
    return state.get(key, {})


async def eventually_all(
    client: Client,
    resource: Resource,
    predicate: Callable[[ObjectsByKey], bool],
    *,
    namespace: str = "",
    fields: str = "",
    within: float = PATIENCE,
) -> ObjectsByKey:
    """Wait until the predicate holds for a collection and return it."""
    state: ObjectsByKey = {}
    within *= 1 if isinstance(asyncio.get_running_loop(), VirtualLoop) else IN_REAL_TIME
    try:
        async with (
            asyncio.timeout(within),
            aclosing(list_and_watch(client, resource, namespace=namespace, fields=fields)) as facts,
        ):
            async for fact in facts:
                _learn(state, fact)
                if predicate(state):
                    return state
    except TimeoutError as cause:
        raise EventuallyTimeout(f"not within {within:g} seconds; last seen: {_show(state)}") from cause
    raise EventuallyTimeout("the watch ended")  # list_and_watch never ends by itself; the type checker cannot know


def _learn(state: ObjectsByKey, fact: WatchUpdate) -> None:
    if isinstance(fact, Snapshot):
        state.clear()
        objects = [orjson.loads(raw) for raw in fact.items]
        state.update({ObjectKey.of(obj): obj for obj in objects})
    elif isinstance(fact, ObjectChange):
        obj = orjson.loads(fact.raw)
        if fact.type == "DELETED":
            state.pop(ObjectKey.of(obj), None)
        else:
            state[ObjectKey.of(obj)] = obj


def _show(state: ObjectsByKey) -> str:
    shown = [_without_secrets(obj) for obj in state.values()]
    return orjson.dumps(shown, option=orjson.OPT_INDENT_2).decode() if shown else "nothing"


def _without_secrets(obj: Mapping[str, Any]) -> Object:
    """Hide the contents of a Secret: a failing test prints this."""
    hidden = {field: dict.fromkeys(obj[field] or {}, "***") for field in SECRET_FIELDS if field in obj}
    metadata = {name: value for name, value in obj.get("metadata", {}).items() if name != "managedFields"}
    return {**obj, "metadata": metadata, **hidden}
