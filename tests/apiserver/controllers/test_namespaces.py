"""Namespaces: what they are given, and how they end."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS

pytestmark = pytest.mark.timeout(20)


async def test_every_namespace_has_its_account_and_bundle(world: Any) -> None:
    await world.has(NAMESPACES, "team")

    assert world.get(SERVICE_ACCOUNTS, "default", "team") is not None
    bundle = world.get(CONFIG_MAPS, "kube-root-ca.crt", "team")
    assert bundle["data"] == {"ca.crt": world.bundle.decode()}


async def test_lost_account_and_changed_bundle_are_mended(world: Any) -> None:
    await world.registry.delete(SERVICE_ACCOUNTS, ObjectKey("default", "default"))
    bundle = world.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
    await world.registry.update(CONFIG_MAPS, {**bundle, "data": {"ca.crt": "forged"}})
    await world.settles()

    assert world.get(SERVICE_ACCOUNTS, "default", "default") is not None
    assert world.get(CONFIG_MAPS, "kube-root-ca.crt", "default")["data"] == {"ca.crt": world.bundle.decode()}


async def test_servers_that_extend_the_api_find_by_what_clients_are_known(world: Any) -> None:
    key = ObjectKey("kube-system", "extension-apiserver-authentication")
    published = world.get(CONFIG_MAPS, key.name, key.namespace)
    assert published["data"] == {"client-ca-file": world.bundle.decode()}

    await world.registry.update(CONFIG_MAPS, {**published, "data": {"client-ca-file": "forged", "more": "kept"}})
    await world.settles()

    mended = world.get(CONFIG_MAPS, key.name, key.namespace)
    assert mended["data"] == {"client-ca-file": world.bundle.decode(), "more": "kept"}


async def test_deleted_namespace_takes_its_content_along_and_nothing_else(world: Any) -> None:
    await world.has(NAMESPACES, "team")
    await world.has(SECRETS, "a", "team")
    await world.has(SECRETS, "b", "default")

    await world.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await world.settles()

    assert world.get(NAMESPACES, "team") is None
    assert world.names(SECRETS) == {"b"}
    assert world.names(CONFIG_MAPS, "team") == set()


async def test_namespace_waits_for_finalizers_of_its_content_and_says_so(world: Any) -> None:
    await world.has(NAMESPACES, "team")
    await world.has(SECRETS, "held", "team", metadata={"finalizers": ["acme.test/hold"]})

    await world.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await world.settles()
    held = world.get(NAMESPACES, "team")
    assert is_true(held, "NamespaceContentRemaining")
    assert "acme.test/hold in 1" in str(find_condition(held, "NamespaceFinalizersRemaining"))

    secret = world.get(SECRETS, "held", "team")
    secret["metadata"]["finalizers"] = []
    await world.registry.update(SECRETS, secret)
    await world.settles()
    assert world.get(NAMESPACES, "team") is None


async def test_pods_are_given_their_grace_before_the_namespace_goes(world: Any) -> None:
    await world.has(NAMESPACES, "team")
    container = {"name": "c", "image": "i"}
    await world.has(PODS, "p", "team", spec={"nodeName": "n", "containers": [container]})

    await world.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await world.elapses(timedelta(seconds=29))
    assert world.names(PODS, "team") == {"p"}
    assert "default" in world.names(SERVICE_ACCOUNTS, "team")  # pods go first

    await world.elapses(timedelta(seconds=3))
    assert world.get(NAMESPACES, "team") is None
