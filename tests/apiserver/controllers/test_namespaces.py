"""Namespaces: what they are given, and how they end."""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta
from typing import Any

import pytest

from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.pki.authority import Authority

pytestmark = pytest.mark.timeout(20)


async def test_every_namespace_has_its_account_and_bundle(harness: Any) -> None:
    await harness.has(NAMESPACES, "team")

    assert harness.get(SERVICE_ACCOUNTS, "default", "team") is not None
    bundle = harness.get(CONFIG_MAPS, "kube-root-ca.crt", "team")
    assert bundle["data"] == {"ca.crt": harness.bundle.decode()}


async def test_lost_account_and_changed_bundle_are_mended(harness: Any) -> None:
    await harness.registry.delete(SERVICE_ACCOUNTS, ObjectKey("default", "default"))
    bundle = harness.get(CONFIG_MAPS, "kube-root-ca.crt", "default")
    await harness.registry.update(CONFIG_MAPS, {**bundle, "data": {"ca.crt": "forged"}})
    await harness.settles()

    assert harness.get(SERVICE_ACCOUNTS, "default", "default") is not None
    assert harness.get(CONFIG_MAPS, "kube-root-ca.crt", "default")["data"] == {"ca.crt": harness.bundle.decode()}


async def test_servers_that_extend_the_api_find_by_what_clients_are_known(harness: Any) -> None:
    key = ObjectKey("kube-system", "extension-apiserver-authentication")
    published = harness.get(CONFIG_MAPS, key.name, key.namespace)
    assert published["data"] == {"client-ca-file": harness.bundle.decode()}

    await harness.registry.update(CONFIG_MAPS, {**published, "data": {"client-ca-file": "forged", "more": "kept"}})
    await harness.settles()

    mended = harness.get(CONFIG_MAPS, key.name, key.namespace)
    assert mended["data"] == {"client-ca-file": harness.bundle.decode(), "more": "kept"}


async def test_another_authority_is_published_without_a_restart(harness: Any) -> None:
    await harness.has(NAMESPACES, "team")
    named = {"annotations": {"kubernetes.io/service-account.name": "default"}}
    await harness.has(SECRETS, "legacy", "team", type="kubernetes.io/service-account-token", metadata=named)

    harness.bundle = Authority.make("another-ca", now=harness.clock.now()).certificate.pem
    await harness.elapses(timedelta(hours=1, minutes=1))

    assert harness.get(CONFIG_MAPS, "kube-root-ca.crt", "team")["data"] == {"ca.crt": harness.bundle.decode()}
    assert b64decode(harness.get(SECRETS, "legacy", "team")["data"]["ca.crt"]) == harness.bundle


async def test_deleted_namespace_takes_its_content_along_and_nothing_else(harness: Any) -> None:
    await harness.has(NAMESPACES, "team")
    await harness.has(SECRETS, "a", "team")
    await harness.has(SECRETS, "b", "default")

    await harness.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await harness.settles()

    assert harness.get(NAMESPACES, "team") is None
    assert harness.names(SECRETS) == {"b"}
    assert harness.names(CONFIG_MAPS, "team") == set()


async def test_namespace_waits_for_finalizers_of_its_content_and_says_so(harness: Any) -> None:
    await harness.has(NAMESPACES, "team")
    await harness.has(SECRETS, "held", "team", metadata={"finalizers": ["acme.test/hold"]})

    await harness.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await harness.settles()
    held = harness.get(NAMESPACES, "team")
    assert is_true(held, "NamespaceContentRemaining")
    assert "acme.test/hold in 1" in str(find_condition(held, "NamespaceFinalizersRemaining"))

    secret = harness.get(SECRETS, "held", "team")
    secret["metadata"]["finalizers"] = []
    await harness.registry.update(SECRETS, secret)
    await harness.settles()
    assert harness.get(NAMESPACES, "team") is None


async def test_pods_are_given_their_grace_before_the_namespace_goes(harness: Any) -> None:
    await harness.has(NAMESPACES, "team")
    container = {"name": "c", "image": "i"}
    await harness.has(PODS, "p", "team", spec={"nodeName": "n", "containers": [container]})

    await harness.registry.delete(NAMESPACES, ObjectKey.cluster("team"))
    await harness.elapses(timedelta(seconds=29))
    assert harness.names(PODS, "team") == {"p"}
    assert "default" in harness.names(SERVICE_ACCOUNTS, "team")  # pods go first

    await harness.elapses(timedelta(seconds=3))
    assert harness.get(NAMESPACES, "team") is None
