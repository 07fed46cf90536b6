"""A bootstrap token for one cluster cannot bring in a second one."""

from __future__ import annotations

import base64

from tests.helpers.fleet import FleetHarness
from tests.registration.test_join import request_with_another_key

from watchword.api.bootstrap import ANNOTATION_ALLOWED_CLUSTERS, ANNOTATION_MAXIMUM_USES, MANAGED_CLUSTER_GROUP
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, SECRETS
from watchword.kube.client import Client
from watchword.registration.csr.driver import GROUPS
from watchword.testing.eventually import ObjectsByKey, eventually, eventually_all

BY_TOKEN = {GROUPS.flag: MANAGED_CLUSTER_GROUP}


async def a_token(fleet: FleetHarness, token_id: str, **annotations: str) -> Client:
    data = {"token-id": token_id, "token-secret": "0123456789abcdef"}
    manifest = SECRETS.manifest(
        ObjectKey("kube-system", f"bootstrap-token-{token_id}"),
        metadata={"annotations": annotations},
        type="bootstrap.kubernetes.io/token",
        data={name: base64.b64encode(value.encode()).decode() for name, value in data.items()},
    )
    await fleet.client.create(SECRETS, manifest)
    return fleet.plane.client(f"system:bootstrap:{token_id}", ["system:bootstrappers", MANAGED_CLUSTER_GROUP])


async def ask(fleet: FleetHarness, holder: Client, name: str) -> ObjectKey:
    manifest = MANAGED_CLUSTERS.manifest(ObjectKey.cluster(name), spec={})
    if await fleet.client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name)) is None:
        await holder.create(MANAGED_CLUSTERS, manifest)
    return ObjectKey.cluster(await request_with_another_key(holder, name))


def approved(csr: Object | None) -> bool:
    return csr is not None and find_condition(csr, "Approved") is not None


async def test_of_several_clusters_at_once_a_token_for_one_brings_in_one(fleet: FleetHarness) -> None:
    holder = await a_token(fleet, "limits", **{ANNOTATION_MAXIMUM_USES: "1"})
    other = await a_token(fleet, "plenty")
    keys = [await ask(fleet, holder, fleet.name()) for _ in range(4)]

    fleet.start_hub(BY_TOKEN)
    await eventually_all(
        fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda found: any(approved(found.get(key)) for key in keys)
    )
    last = await ask(fleet, other, fleet.name())
    found: ObjectsByKey = await eventually_all(
        fleet.client, CERTIFICATE_SIGNING_REQUESTS, lambda state: approved(state.get(last))
    )

    assert sum(approved(found[key]) for key in keys) == 1


async def test_use_of_a_token_is_known_to_the_next_hub(fleet: FleetHarness) -> None:
    holder = await a_token(fleet, "onceon", **{ANNOTATION_MAXIMUM_USES: "1"})
    other = await a_token(fleet, "others")
    hub = fleet.start_hub(BY_TOKEN)
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, await ask(fleet, holder, fleet.name()), approved)
    await fleet.stop(hub)

    fleet.start_hub(BY_TOKEN)
    second = await ask(fleet, holder, fleet.name())
    last = await ask(fleet, other, fleet.name())
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, last, approved)

    assert not approved(await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, second))


async def test_key_that_was_approved_first_is_remembered_by_the_next_hub(fleet: FleetHarness) -> None:
    holder, name = await a_token(fleet, "twokey"), fleet.name()
    hub = fleet.start_hub(BY_TOKEN)
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, await ask(fleet, holder, name), approved)
    await fleet.stop(hub)

    fleet.start_hub(BY_TOKEN)
    second = await ask(fleet, holder, name)
    last = await ask(fleet, holder, fleet.name())
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, last, approved)

    assert not approved(await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, second))


async def test_token_for_one_name_brings_in_no_other(fleet: FleetHarness) -> None:
    name = fleet.name()
    holder = await a_token(fleet, "named1", **{ANNOTATION_ALLOWED_CLUSTERS: name})
    fleet.start_hub(BY_TOKEN)

    other = await ask(fleet, holder, f"{name}-2")
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, await ask(fleet, holder, name), approved)

    assert not approved(await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, other))
