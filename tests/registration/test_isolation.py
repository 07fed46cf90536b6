"""What every identity of a fleet may do on the hub, tried with its real credential, as a golden file.

Record again with WATCHWORD_RECORD=1 after an intended change of rights.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from itertools import product
from pathlib import Path

import pytest
from tests.helpers.fleet import AGENTS_NAMESPACE, AUTOMATIC, FleetHarness, PlaneConnector, transport_with

from watchword.api import resources
from watchword.api.meta import ObjectKey, Resource
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.credentials.credential_secret import decode_data
from watchword.kube.access_reviews import ResourceAccess, can_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden

GOLDEN = Path(__file__).parent / "golden" / "isolation.txt"
VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
KINDS = tuple(value for value in vars(resources).values() if isinstance(value, Resource))
SUBRESOURCES = (
    (resources.MANAGED_CLUSTERS, "status"),
    (resources.MANAGED_CLUSTER_ADDONS, "status"),
    (resources.MANIFEST_WORKS, "status"),
    (resources.SERVICE_ACCOUNTS, "token"),
    (resources.CERTIFICATE_SIGNING_REQUESTS, "approval"),
    (resources.CERTIFICATE_SIGNING_REQUESTS, "status"),
)
VIRTUAL = (
    ("register.open-cluster-management.io", "managedclusters", "accept", "update"),
    ("register.open-cluster-management.io", "managedclusters", "clientcertificates", "renew"),
    ("cluster.open-cluster-management.io", "managedclustersets", "join", "create"),
    ("cluster.open-cluster-management.io", "managedclustersets", "bind", "create"),
    ("certificates.k8s.io", "signers", "", "approve"),
    ("rbac.authorization.k8s.io", "clusterroles", "", "escalate"),
    ("rbac.authorization.k8s.io", "clusterroles", "", "bind"),
    ("", "users", "", "impersonate"),
    ("", "groups", "", "impersonate"),
)


def questions(own: str, other: str) -> Iterable[ResourceAccess]:
    for kind, verb in product(KINDS, VERBS):
        yield from places(kind, "", verb, own, other)
    for (kind, subresource), verb in product(SUBRESOURCES, ("get", "create", "update", "patch")):
        yield from places(kind, subresource, verb, own, other)
    for group, plural, subresource, verb in VIRTUAL:
        yield ResourceAccess(verb, Resource(group, "*", plural, ""), ObjectKey.cluster(own), subresource)


def places(kind: Resource, subresource: str, verb: str, own: str, other: str) -> Iterable[ResourceAccess]:
    names = ("", own, other)
    spaces = ("", own, other, "kube-system", HUB_NAMESPACE)
    keys = [ObjectKey(n, "") for n in spaces] if kind.namespaced else [ObjectKey.cluster(n) for n in names]
    return (ResourceAccess(verb, kind, key, subresource) for key in keys)


def describe(who: str, access: ResourceAccess, own: str, other: str) -> str:
    names = {"": "", own: "<own>", other: "<other>"}
    what = "/".join(part for part in (access.resource.plural, access.subresource) if part)
    group = f".{access.resource.group}" if access.resource.group else ""
    where = f" in {names.get(access.key.namespace, access.key.namespace)}" if access.key.namespace else ""
    which = f" {names[access.key.name]}" if access.key.name else ""
    return f"{who}: {access.verb} {what}{group}{which}{where}"


async def rights_of(who: str, client: Client, own: str, other: str) -> list[str]:
    asked = list(questions(own, other))
    answers = await asyncio.gather(*(can_i(client, access) for access in asked))
    rows = {describe(who, access, own, other) for access, yes in zip(asked, answers, strict=True) if yes}
    everywhere = {row for row in rows if "<" not in row}  # a right on all of a kind needs no row for each of them
    return sorted(
        row for row in rows if row in everywhere or row.replace(" <own>", "").replace(" <other>", "") not in everywhere
    )


async def credential(fleet: FleetHarness, name: str) -> Client:
    data = decode_data(await fleet.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}")))
    return fleet.plane.adopt(Client(transport_with(fleet.plane, data["tls.crt"], data["tls.key"])))


async def test_rights_of_every_identity_are_exactly_those_on_record(fleet: FleetHarness) -> None:
    one, two = fleet.name("one"), fleet.name("two")
    fleet.start_hub(AUTOMATIC)
    for name in (one, two):
        fleet.start_agent(name)
        await fleet.joined(name)

    rows = await rights_of("an accepted cluster", await credential(fleet, one), one, two)
    rows += await rights_of("a joining cluster", Client(PlaneConnector(fleet.plane).joining()), one, two)

    if os.environ.get("WATCHWORD_RECORD"):
        GOLDEN.write_text("\n".join(rows) + "\n")
    assert rows == GOLDEN.read_text().splitlines()


async def test_one_cluster_can_touch_nothing_of_another(fleet: FleetHarness) -> None:
    one, two = fleet.name("one"), fleet.name("two")
    fleet.start_hub(AUTOMATIC)
    for name in (one, two):
        fleet.start_agent(name)
        await fleet.joined(name)
    intruder = await credential(fleet, one)

    for kind in (resources.LEASES, resources.MANIFEST_WORKS, resources.MANAGED_CLUSTER_ADDONS, resources.SECRETS):
        with pytest.raises(Forbidden):
            await intruder.list(kind, namespace=two)
    with pytest.raises(Forbidden):
        await intruder.get(MANAGED_CLUSTERS, ObjectKey.cluster(two))
    with pytest.raises(Forbidden):
        await intruder.patch(MANAGED_CLUSTERS, ObjectKey.cluster(two), {"status": {}}, subresource="status")


def test_no_identity_has_rights_in_the_namespace_of_another() -> None:
    rows = GOLDEN.read_text().splitlines()
    assert not [row for row in rows if "<other>" in row]
    assert not [row for row in rows if "kube-system" in row or HUB_NAMESPACE in row]
