"""The rights of a cluster's add-ons when the administrator wants the cluster gone."""

from __future__ import annotations

from tests.addons.fleet import KUBE_CLIENT, AddonFleet
from tests.helpers.server_decision import until_allowed, until_refused
from tests.security.compromised_agent import forge_metadata

from watchword.addons.definition import AddonDefinition
from watchword.addons.rbac import status_writer
from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.registration.aws_irsa.options import MANAGED_ARN
from watchword.testing.builders import a_cluster, a_config_map
from watchword.testing.eventually import eventually, is_gone

APPLIED = ConditionType.REGISTRATION_APPLIED
BINDING = "open-cluster-management:reporter:status-writer:agent"


async def reporter(addons: AddonFleet, cluster: str) -> ObjectKey:
    definition = AddonDefinition("reporter", grants=(status_writer("mine"),), install_namespace=addons.namespace)
    addons.start_addon(definition)
    key = await addons.enable("reporter", cluster)
    await addons.says(key, APPLIED)
    return key


async def test_certificate_of_a_denied_clusters_addon_has_no_rights(addons: AddonFleet) -> None:
    cluster = await addons.cluster(auth="csr")
    key = await reporter(addons, cluster)
    hub = addons.as_certificate(await addons.secret(key, lambda data: "tls.crt" in data))
    await until_allowed(lambda: hub.create(CONFIG_MAPS, a_config_map("mine", namespace=cluster)))

    await addons.members.accept(cluster, accepted=False)
    await addons.says(key, APPLIED, "False", "ClusterNotAccepted")

    await eventually(addons.client, ROLE_BINDINGS, ObjectKey(cluster, BINDING), is_gone)
    await until_refused(lambda: hub.patch(CONFIG_MAPS, ObjectKey(cluster, "mine"), {"data": {"state": "well"}}))


async def test_addon_of_a_cluster_that_the_hub_could_not_verify_has_no_account(addons: AddonFleet) -> None:
    """The administrator accepted it, but its driver is not enabled here, so that no claim of it was checked."""
    cluster = await addons.plane.namespace(f"claimed{addons.mark}")
    arn = {MANAGED_ARN: "arn:aws:eks:us-west-2:111122223333:cluster/claimed"}
    await addons.client.create(MANAGED_CLUSTERS, a_cluster(cluster, accepted=True, annotations=arn))
    subject = {"user": f"system:serviceaccount:{cluster}:{cluster}-reporter-agent"}

    key = await addons.enable(
        "reporter", cluster, {**KUBE_CLIENT, "kubeClient": {"driver": "token", "subject": subject}}
    )

    await addons.says(key, ConditionType.TOKEN_INFRASTRUCTURE_READY, "False", "ClusterNotAccepted")
    account = ObjectKey(cluster, f"{cluster}-reporter-agent")
    assert await addons.client.find(SERVICE_ACCOUNTS, account) is None


async def test_addon_of_a_cluster_that_is_accepted_again_has_its_rights_back(addons: AddonFleet) -> None:
    cluster = await addons.cluster(auth="csr")
    key = await reporter(addons, cluster)
    await addons.members.accept(cluster, accepted=False)
    await addons.says(key, APPLIED, "False", "ClusterNotAccepted")

    await addons.members.accept(cluster)

    await addons.says(key, APPLIED)
    await eventually(addons.client, ROLE_BINDINGS, ObjectKey(cluster, BINDING))


async def test_addon_of_a_cluster_without_finalizers_keeps_no_rights(addons: AddonFleet) -> None:
    cluster = await addons.cluster(auth="csr")
    await reporter(addons, cluster)
    await addons.stop_agent(cluster)
    await addons.members.stop(addons.hub)
    await addons.client.delete(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    await forge_metadata(addons.client, cluster, finalizers=[])

    await eventually(addons.client, ROLE_BINDINGS, ObjectKey(cluster, BINDING), is_gone)
