"""What the agent of a cluster tries in order to stay when the administrator wants it gone, and does not achieve."""

from __future__ import annotations

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.fleet import AUTOMATIC, FleetHarness
from tests.helpers.server_decision import until_refused
from tests.security.compromised_agent import forge_condition, forge_metadata, taken_over

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType, registration_binding, work_binding
from watchword.api.resources import LEASES, MANAGED_CLUSTERS, MANIFEST_WORKS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.kube.errors import Forbidden
from watchword.testing.eventually import eventually, is_gone

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY


async def member(fleet: FleetHarness) -> str:
    name = fleet.name()
    agent = fleet.start_agent(name)
    await fleet.joined(name)
    await fleet.stop(agent)
    return name


async def test_agent_that_forges_its_denial_before_the_hub_reconciles_loses_its_rights(
    fleet: FleetHarness,
) -> None:
    hub = fleet.start_hub(AUTOMATIC)
    name = await member(fleet)
    agent = await taken_over(fleet, name)
    await fleet.stop(hub)  # the agent wins the race
    await fleet.accept(name, accepted=False)
    await forge_condition(agent, name, ConditionType.HUB_ACCEPTED, "False")

    fleet.start_hub(AUTOMATIC)

    for binding in (registration_binding(name), work_binding(name)):
        await eventually(fleet.client, ROLE_BINDINGS, ObjectKey(name, binding), is_gone)
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")
    lease = ObjectKey(name, "managed-cluster-lease")
    await until_refused(lambda: agent.patch(LEASES, lease, {"spec": {"holderIdentity": "x"}}))


async def test_agent_that_erases_the_mark_of_its_automatic_acceptance_is_not_accepted_again(
    fleet: FleetHarness,
) -> None:
    hub = fleet.start_hub(AUTOMATIC)
    name = await member(fleet)
    agent = await taken_over(fleet, name)
    await fleet.stop(hub)
    with pytest.raises(Forbidden):
        await forge_metadata(agent, name, annotations={})
    await forge_metadata(fleet.client, name, annotations={})  # were it erased all the same
    await fleet.accept(name, accepted=False)

    fleet.start_hub(AUTOMATIC)

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")
    await eventually(fleet.client, ROLE_BINDINGS, ObjectKey(name, work_binding(name)), is_gone)
    assert not (await fleet.client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name)))["spec"]["hubAcceptsClient"]


async def test_agent_that_strips_the_finalizers_of_its_deleted_cluster_keeps_no_rights(addons: AddonFleet) -> None:
    fleet, name = addons.members, await addons.cluster()
    await addons.says(await addons.enable("reporter", name), READY)
    await addons.stop_agent(name)
    agent = await taken_over(fleet, name)
    await fleet.stop(addons.hub)
    await fleet.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    with pytest.raises(Forbidden):
        await forge_metadata(agent, name, finalizers=[])
    await forge_metadata(fleet.client, name, finalizers=[])  # were they lifted all the same

    addons.start_hub()

    for binding in (registration_binding(name), work_binding(name), "reporter-token-role"):
        await eventually(fleet.client, ROLE_BINDINGS, ObjectKey(name, binding), is_gone)
    await eventually(fleet.client, SERVICE_ACCOUNTS, ObjectKey(name, f"{name}-reporter-agent"), is_gone)
    await until_refused(lambda: agent.list(MANIFEST_WORKS, namespace=name))
