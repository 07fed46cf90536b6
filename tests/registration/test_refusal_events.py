"""What the hub refuses is told as Events."""

from __future__ import annotations

from tests.helpers.events import is_told
from tests.helpers.fleet import AGENT, AUTOMATIC, FleetHarness, PlaneConnector
from tests.helpers.server_decision import grant
from tests.registration.test_join import request_with_another_key

from watchword.api.meta import ObjectKey
from watchword.api.names import Annotation, ConditionType, Finalizer, Label
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    NAMESPACES,
    SECRETS,
)
from watchword.credentials.certificates.agent import request_manifest
from watchword.credentials.certificates.requests import is_pending, read_decision
from watchword.credentials.credential_secret import AGENT_NAME, decode_data
from watchword.credentials.driver import CredentialSubject, WantedCredential
from watchword.kube.client import Client
from watchword.pki.keys import PrivateKey
from watchword.registration.aws_irsa.options import MANAGED_ARN
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually

OCM = "system:open-cluster-management"


async def test_request_of_another_key_for_a_taken_name_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)

    other = await request_with_another_key(Client(PlaneConnector(fleet.plane).joining()), name)

    await is_told(fleet.client, other, "NameAlreadyOwned")


async def test_request_that_the_agent_does_not_need_any_more_is_denied_and_no_other(fleet: FleetHarness) -> None:
    name, joining = fleet.name(), Client(PlaneConnector(fleet.plane).joining())
    fleet.start_hub(AUTOMATIC)
    fleet.start_agent(name)
    await fleet.joined(name)
    secret = await fleet.client_of(AGENT).get(SECRETS, ObjectKey(AGENT.namespace, f"hub-{name}"))
    own = await request_with_another_key(joining, name, agent=decode_data(secret)[AGENT_NAME].decode())
    foreign = await request_with_another_key(joining, name)
    await is_told(fleet.client, own, "NameAlreadyOwned")

    rotation = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: "now"}}}
    await fleet.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), rotation)

    key = ObjectKey.cluster(own)
    denied = await eventually(
        fleet.client, CERTIFICATE_SIGNING_REQUESTS, key, lambda csr: csr is not None and not is_pending(csr)
    )
    assert (read_decision(denied).verdict, read_decision(denied).reason) == ("Denied", "Superseded")
    assert is_pending(await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(foreign)))


async def test_renewal_for_a_cluster_that_is_not_accepted_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name))
    user, groups = f"{OCM}:{name}:agent", (f"{OCM}:{name}", f"{OCM}:managed-clusters")
    rule = {"apiGroups": ["certificates.k8s.io"], "resources": ["certificatesigningrequests"], "verbs": ["create"]}
    await grant(fleet.client, ObjectKey.cluster(name), [rule], user)
    fleet.start_hub(AUTOMATIC)

    wanted = WantedCredential(name, CredentialSubject(user, groups))
    request = request_manifest(wanted, PrivateKey.generate())
    made = await fleet.plane.client(user, list(groups)).create(CERTIFICATE_SIGNING_REQUESTS, request)

    await is_told(fleet.client, made["metadata"]["name"], "RenewalDenied")


async def test_cluster_whose_driver_the_hub_does_not_have_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    fleet.start_hub(AUTOMATIC)

    claim = {MANAGED_ARN: f"arn:aws:eks:eu-central-1:444455556666:cluster/{name}"}
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True, annotations=claim))

    await is_told(fleet.client, name, "ManagedClusterNotAccepted")


async def test_finalizers_that_no_agent_will_remove_are_dropped_and_that_is_told(fleet: FleetHarness) -> None:
    name = fleet.name()
    place = NAMESPACES.manifest(ObjectKey.cluster(name), metadata={"labels": {Label.CLUSTER_NAME: name}})
    await fleet.client.create(NAMESPACES, place)
    metadata = {"finalizers": [Finalizer.MANIFEST_WORK]}
    work = MANIFEST_WORKS.manifest(ObjectKey(name, "held"), metadata=metadata, spec={"workload": {"manifests": []}})
    await fleet.client.create(MANIFEST_WORKS, work)
    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True))
    fleet.start_hub(AUTOMATIC)
    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "True")

    await fleet.remove(name)

    await is_told(fleet.client, name, "FinalizersDropped")
