"""A cluster joins, works, is denied and returns by IAM alone: no certificate is requested."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

pytest.importorskip("boto3", reason="boto3 is not installed: pip install 'watchword[aws]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'watchword[aws-emulator]'")

from botocore.exceptions import ClientError
from tests.emulators.aws import AwsEmulator, EksCluster
from tests.helpers.events import is_told
from tests.helpers.fleet import run_fleet
from tests.registration.aws_irsa.iam_fleet import HUB, PROGRAM, Edge, IamFleet, exec_of

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import HUB_NAMESPACE, ConditionType
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    LEASES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANIFEST_WORKS,
    SECRETS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.yaml import load
from watchword.credentials.credential_secret import decode_data
from watchword.kube.client import Client
from watchword.kube.connect import credentials_of, make_client
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import Forbidden, Unauthorized
from watchword.kube.exec_plugin import ExecCredential, ExecPlugin
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.registration.aws_irsa.identity import PREFIX
from watchword.registration.aws_irsa.options import HUB_CLUSTER_ARN
from watchword.testing.builders import an_addon
from watchword.testing.credentials import write_private
from watchword.testing.eventually import eventually, is_gone
from watchword.testing.plane import Plane

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(300)]


@pytest_asyncio.fixture
async def aws() -> AsyncIterator[AwsEmulator]:
    async with AwsEmulator() as running:
        yield running


@pytest.fixture
def hub_cluster(request: pytest.FixtureRequest, aws: AwsEmulator) -> EksCluster:
    cluster = EksCluster(HUB, authentication_mode=getattr(request, "param", "API_AND_CONFIG_MAP"))
    aws.add_cluster(cluster)
    return cluster


@pytest.fixture
def token_webhook(aws: AwsEmulator, hub_cluster: EksCluster, tmp_path: Path) -> Path:
    return write_private(tmp_path / "webhook.kubeconfig", aws.webhook_kubeconfig(hub_cluster.arn))


@pytest_asyncio.fixture
async def fleet(
    request: pytest.FixtureRequest, private_plane: Plane, aws: AwsEmulator, hub_cluster: EksCluster, tmp_path: Path
) -> AsyncIterator[IamFleet]:
    hub_cluster.kubeconfig = private_plane.kubeconfig
    async with run_fleet(private_plane) as members:
        running = IamFleet(members, aws, tmp_path)
        running.start_hub(getattr(request, "param", "aws-irsa"))
        try:
            yield running
        finally:
            await running.stop()


async def joined_edge(fleet: IamFleet, environment: dict[str, str] | None = None, addon_auth: str = "token") -> Edge:
    edge = await fleet.prepare_edge()
    fleet.start_agent(edge, environment, addon_auth)
    await eventually(fleet.members.client, MANAGED_CLUSTERS, ObjectKey.cluster(edge.name))
    await fleet.members.accept(edge.name)
    await fleet.members.joined(edge.name)
    return edge


async def applies_work(fleet: IamFleet, edge: Edge, name: str) -> None:
    """Give the cluster a work and wait until its object exists."""
    manifest = CONFIG_MAPS.manifest(ObjectKey("default", f"{edge.name}-{name}"), data={"by": "iam"})
    spec = {"workload": {"manifests": [manifest]}}
    await fleet.members.client.create(MANIFEST_WORKS, MANIFEST_WORKS.manifest(ObjectKey(edge.name, name), spec=spec))
    await eventually(fleet.members.client, CONFIG_MAPS, ObjectKey("default", f"{edge.name}-{name}"))


def client_with(fleet: IamFleet, environment: dict[str, str], entry: Object) -> Client:
    """Return a client that runs the exec entry of a kubeconfig, as any Kubernetes client does."""
    plane = fleet.members.plane
    plugin = ExecPlugin(entry["command"], tuple(entry["args"]), environment, entry["apiVersion"], "Never")
    return plane.adopt(make_client(Endpoint(plane.server, plane.ca_pem), ExecCredential(plugin)))


@pytest.mark.slow
async def test_cluster_joins_works_is_denied_and_returns_by_iam_alone(fleet: IamFleet) -> None:
    client, edge = fleet.members.client, await fleet.prepare_edge()
    fleet.start_agent(edge)
    waiting = await eventually(client, MANAGED_CLUSTERS, ObjectKey.cluster(edge.name))
    assert annotations_of(waiting)["eks-managed-cluster-arn"] == str(edge.pair.managed)

    await fleet.members.accept(edge.name)
    await fleet.members.joined(edge.name)
    await applies_work(fleet, edge, "first")

    await fleet.members.accept(edge.name, accepted=False)
    await fleet.members.condition(edge.name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")
    await fleet.members.accept(edge.name)
    await fleet.members.condition(edge.name, ConditionType.HUB_ACCEPTED, "True")
    await applies_work(fleet, edge, "second")
    assert (await client.list(CERTIFICATE_SIGNING_REQUESTS)).items == []


@pytest.mark.slow
async def test_secret_holds_an_exec_entry_and_no_token(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)

    data = await fleet.secret_of(edge)

    assert set(data) == {"kubeconfig", "cluster-name", "agent-name"}
    entry = exec_of(data["kubeconfig"])
    wanted = f"--region us-west-2 eks get-token --cluster-name fleet-hub --role-arn {edge.pair.hub_role} --output json"
    assert (entry["command"], entry["args"]) == ("aws", wanted.split())
    assert b"token:" not in data["kubeconfig"]
    assert b"k8s-aws-v1" not in b"".join(data.values())


@pytest.mark.slow
async def test_agent_without_the_aws_command_signs_tokens_itself(fleet: IamFleet) -> None:
    no_aws = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}

    edge = await joined_edge(fleet, no_aws)

    await applies_work(fleet, edge, "first")


@pytest.mark.slow
async def test_cluster_can_neither_assume_nor_use_the_role_of_another(fleet: IamFleet) -> None:
    first, second = await joined_edge(fleet), await joined_edge(fleet)
    session = await fleet.session_of(first)
    entry = exec_of((await fleet.secret_of(first))["kubeconfig"])
    own = client_with(fleet, fleet.common | first.environment, entry)

    with pytest.raises(ClientError, match="AccessDenied"):
        await fleet.ask(session, "assume_role", RoleArn=second.pair.hub_role, RoleSessionName="test-session")
    with pytest.raises(ClientError, match="AccessDenied"):
        await fleet.ask(
            None,
            "assume_role_with_web_identity",
            RoleArn=second.pair.managed_role,
            RoleSessionName="test-session",
            WebIdentityToken=first.token.read_text(),
        )
    await own.get(MANAGED_CLUSTERS, ObjectKey.cluster(first.name))
    with pytest.raises(Forbidden):
        await own.get(MANAGED_CLUSTERS, ObjectKey.cluster(second.name))
    with pytest.raises(Forbidden):
        await own.list(MANIFEST_WORKS, namespace=second.name)


@pytest.mark.slow
async def test_token_of_a_denied_cluster_is_refused(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)
    entry = exec_of((await fleet.secret_of(edge))["kubeconfig"])
    command = [entry["command"], *entry["args"]]
    token = Sensitive(str(_status(await fleet.run(command, edge.environment))["token"]))

    await fleet.members.accept(edge.name, accepted=False)
    await fleet.members.condition(edge.name, ConditionType.HUB_ACCEPTED, "False", "HubClusterAdminDenied")

    plane = fleet.members.plane
    cluster = ClusterEntry(plane.server, ca_data=plane.ca_pem)
    credentials = credentials_of(UserEntry(token=token), cluster)
    with pytest.raises((Forbidden, Unauthorized)):
        await plane.adopt(make_client(Endpoint(plane.server, plane.ca_pem), credentials)).get(
            MANAGED_CLUSTERS, ObjectKey.cluster(edge.name)
        )


@pytest.mark.parametrize("hub_cluster", ["CONFIG_MAP"], indirect=True)
async def test_cluster_joins_a_hub_that_maps_roles_by_config_map(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)

    await applies_work(fleet, edge, "first")

    found = await fleet.members.client.get(CONFIG_MAPS, ObjectKey("kube-system", "aws-auth"))
    assert edge.pair.hub_role in found["data"]["mapRoles"]


@pytest.mark.slow
async def test_agent_returns_with_a_new_token_when_the_old_one_has_expired(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)
    await applies_work(fleet, edge, "first")

    fleet.aws.end_sessions(edge.pair.hub_role)
    await fleet.members.plane.restart(kill=False)  # its watches end, and no review is remembered

    await applies_work(fleet, edge, "second")
    key = ObjectKey(edge.name, "second")
    await eventually(fleet.members.client, MANIFEST_WORKS, key, lambda work: is_true(work or {}, "Applied"))


@pytest.mark.slow
async def test_unjoin_gives_the_role_back(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)
    command = [*PROGRAM, "unjoin", f"--cluster-name={edge.name}", f"--namespace={edge.namespace}"]

    # In the shell of a person, who does not have the identity of the agent's pods: the agent notifies the hub.
    await fleet.run([*command, f"--kubeconfig={fleet.members.plane.kubeconfig}"], {})

    await fleet.members.condition(edge.name, ConditionType.HUB_ACCEPTED, "False")
    await eventually(fleet.members.client, LEASES, record_of(edge), is_gone)  # AWS has confirmed the deletion
    session = await fleet.session_of(edge)
    with pytest.raises(ClientError, match="AccessDenied"):
        await fleet.ask(session, "assume_role", RoleArn=edge.pair.hub_role, RoleSessionName="test-session")


@pytest.mark.slow
async def test_revoked_cluster_is_refused_and_loses_its_role(fleet: IamFleet) -> None:
    edge = await joined_edge(fleet)

    said = load(await fleet.administer("revoke", "cluster", edge.name, "--yes", "--wait", "-o", "json"))

    (revocation,) = said["revocations"]
    assert (revocation["changed"], revocation["error"]) == (True, "")
    assert [row["holder"] for row in revocation["refusals"] if row["seconds"] is None] == []
    await eventually(fleet.members.client, LEASES, record_of(edge), is_gone)  # AWS has confirmed the deletion
    session = await fleet.session_of(edge)
    with pytest.raises(ClientError, match="AccessDenied"):
        await fleet.ask(session, "assume_role", RoleArn=edge.pair.hub_role, RoleSessionName="test-session")


@pytest.mark.slow
async def test_person_makes_the_role_at_acceptance_and_deletes_it_after_denial(fleet: IamFleet) -> None:
    by_people = "--aws-identity-mode=accept"
    await asyncio.to_thread(fleet.processes.pop().stop)
    hub = ("--registration-auth=aws-irsa", f"{HUB_CLUSTER_ARN.flag}={HUB}", by_people)
    await fleet.administer("init", "--no-deploy", "--no-probe", *hub)
    fleet.start_hub("aws-irsa", by_people)
    edge = await fleet.prepare_edge()
    fleet.start_agent(edge)
    await eventually(fleet.members.client, MANAGED_CLUSTERS, ObjectKey.cluster(edge.name))
    await fleet.administer("accept", "--clusters", edge.name, "--wait")
    await fleet.members.joined(edge.name)
    await fleet.administer("deny", "--clusters", edge.name, "--wait")

    deleted = await fleet.administer("aws", "revoke", edge.name)

    assert deleted == f"role {edge.pair.hub_role} is deleted\n"
    assert await fleet.administer("aws", "revoke", edge.name) == f"cluster {edge.name} has no IAM role\n"
    await is_told(fleet.members.client, edge.name, "AwsIdentityCreated", "AwsIdentityRevoked")


def record_of(edge: Edge) -> ObjectKey:
    return ObjectKey(HUB_NAMESPACE, f"{PREFIX}{edge.pair.identifier}")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fleet", "auth", "key"),
    [
        pytest.param("aws-irsa", "token", "token", id="a token"),
        pytest.param("csr,aws-irsa", "csr", "tls.crt", id="a certificate, on a hub that can sign"),
    ],
    indirect=["fleet"],
)
async def test_addon_of_a_cluster_by_iam_has_either_credential(fleet: IamFleet, auth: str, key: str) -> None:
    edge, client = await joined_edge(fleet, addon_auth=auth), fleet.members.client
    addon = an_addon("reporter", cluster=edge.name)
    await client.create(MANAGED_CLUSTER_ADDONS, addon)
    status = {"status": {"registrations": [{"type": "kubeClient"}], "namespace": edge.namespace}}

    await client.patch(MANAGED_CLUSTER_ADDONS, ObjectKey.of(addon), status, subresource="status")

    secret = ObjectKey(edge.namespace, "reporter-hub-kubeconfig")
    await eventually(client, SECRETS, secret, lambda found: key in decode_data(found))


def _status(printed: str) -> Object:
    found: Object = load(printed)["status"]
    return found
