"""What an attacker with the credential of one cluster's agent is refused on the hub."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest
from tests.helpers.fleet import AUTOMATIC, FleetHarness
from tests.security.compromised_agent import forge_metadata, taken_over

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey, finalizers_of, labels_of
from watchword.api.names import KUBE_CLIENT_SIGNER, Annotation, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTERS, NAMESPACES, SECRETS
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError
from watchword.pki.csr import build_csr
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames, CertificateSubject
from watchword.testing.eventually import eventually

USAGES = ("digital signature", "key encipherment", "client auth")
MANY = tuple(f"host-{number}.example.com" for number in range(200))


@dataclass(frozen=True)
class Ask:
    """One request for a certificate; `{a}` is the intruder's cluster and `{b}` the victim's."""

    labels: dict[str, str]
    user: str
    groups: tuple[str, ...]
    names: tuple[str, ...] = ()
    usages: tuple[str, ...] = USAGES

    def manifest(self, name: str, fill: Callable[[str], str]) -> Object:
        subject = CertificateSubject(fill(self.user), tuple(fill(group) for group in self.groups))
        body = build_csr(PrivateKey.generate(), subject, AlternativeNames(dns=self.names))
        labels = {label: fill(value) for label, value in self.labels.items()}
        spec = {
            "signerName": KUBE_CLIENT_SIGNER,
            "usages": list(self.usages),
            "request": base64.b64encode(body).decode(),
        }
        return CERTIFICATE_SIGNING_REQUESTS.manifest(ObjectKey.cluster(name), metadata={"labels": labels}, spec=spec)


OF_A, OF_B = {Label.CLUSTER_NAME: "{a}"}, {Label.CLUSTER_NAME: "{b}"}
OCM = "system:open-cluster-management"
GROUPS_A, GROUPS_B = (f"{OCM}:{{a}}",), (f"{OCM}:{{b}}",)
HONEST = Ask(OF_A, f"{OCM}:{{a}}:{{agent}}", (*GROUPS_A, f"{OCM}:managed-clusters"))
HOSTILE = {
    "the victim by label and subject": Ask(OF_B, f"{OCM}:{{b}}:agent", GROUPS_B),
    "the victim by subject alone": Ask(OF_A, f"{OCM}:{{b}}:agent", GROUPS_B),
    "the victim by label alone": Ask(OF_B, f"{OCM}:{{a}}:{{agent}}", GROUPS_A),
    "the victim's group beside the own": Ask(OF_A, f"{OCM}:{{a}}:{{agent}}", (*GROUPS_A, *GROUPS_B)),
    "another agent of the own cluster": Ask(OF_A, f"{OCM}:{{a}}:somebody-else", GROUPS_A),
    "a name that begins alike": Ask({Label.CLUSTER_NAME: "{a}-2"}, f"{OCM}:{{a}}-2:agent", (f"{OCM}:{{a}}-2",)),
    "hundreds of host names": Ask(OF_A, f"{OCM}:{{a}}:{{agent}}", GROUPS_A, MANY),
    "a server's certificate": Ask(OF_A, f"{OCM}:{{a}}:{{agent}}", GROUPS_A, (), (*USAGES, "server auth")),
    "an administrator": Ask(OF_A, "kubernetes-admin", ("cluster-admins",)),
    "an add-on that is not there": Ask(
        {**OF_A, Label.ADDON_NAME: "none"},
        f"{OCM}:cluster:{{a}}:addon:none:agent:x",
        (f"{OCM}:cluster:{{a}}:addon:none",),
    ),
    "the victim's add-on": Ask(
        {**OF_B, Label.ADDON_NAME: "none"},
        f"{OCM}:cluster:{{b}}:addon:none:agent:x",
        (f"{OCM}:cluster:{{b}}:addon:none",),
    ),
}


async def members(fleet: FleetHarness, count: int) -> Sequence[str]:
    names = [fleet.name() for _ in range(count)]
    fleet.start_hub(AUTOMATIC)
    for name in names:
        agent = fleet.start_agent(name)
        await fleet.joined(name)
        await fleet.stop(agent)
    return names


async def own_agent(fleet: FleetHarness, cluster: str) -> str:
    secret = await fleet.client.get(SECRETS, ObjectKey("open-cluster-management-agent", f"hub-{cluster}"))
    return base64.b64decode(secret["data"]["agent-name"]).decode()


async def test_only_the_renewal_of_the_own_certificate_is_approved(fleet: FleetHarness) -> None:
    a, b = await members(fleet, 2)
    intruder, agent = await taken_over(fleet, a), await own_agent(fleet, a)

    def fill(text: str) -> str:
        return text.replace("{agent}", agent).replace("{a}", a).replace("{b}", b)

    asked = {}
    for number, (what, ask) in enumerate(HOSTILE.items()):
        asked[what] = ObjectKey.cluster(f"{a}-hostile-{number}")
        await intruder.create(CERTIFICATE_SIGNING_REQUESTS, ask.manifest(asked[what].name, fill))
    honest = ObjectKey.cluster(f"{a}-honest")
    await intruder.create(CERTIFICATE_SIGNING_REQUESTS, HONEST.manifest(honest.name, fill))
    await eventually(fleet.client, CERTIFICATE_SIGNING_REQUESTS, honest, lambda obj: approved(obj or {}))

    requests = {what: await fleet.client.get(CERTIFICATE_SIGNING_REQUESTS, key) for what, key in asked.items()}
    assert [what for what, obj in requests.items() if approved(obj)] == []


def approved(csr: Object) -> bool:
    return find_condition(csr, "Approved") is not None


async def test_request_for_the_superuser_group_is_refused(fleet: FleetHarness) -> None:
    (name,) = await members(fleet, 1)
    ask = Ask(OF_A, f"{OCM}:{name}:x", ("system:masters",))

    with pytest.raises(Forbidden, match="system:masters"):
        await (await taken_over(fleet, name)).create(
            CERTIFICATE_SIGNING_REQUESTS, ask.manifest("x", lambda text: text.replace("{a}", name))
        )


async def approve_itself(agent: Client, cluster: str) -> None:
    csr = (await agent.list(CERTIFICATE_SIGNING_REQUESTS, labels=f"{Label.CLUSTER_NAME}={cluster}")).items[0]
    await agent.update(CERTIFICATE_SIGNING_REQUESTS, csr, subresource="approval")


async def enter_a_set(agent: Client, cluster: str) -> None:
    await forge_metadata(agent, cluster, labels={Label.CLUSTER_SET: "global"})


async def leave_its_set(agent: Client, cluster: str) -> None:
    await forge_metadata(agent, cluster, labels={})


async def give_its_name_away(agent: Client, cluster: str) -> None:
    await forge_metadata(agent, cluster, annotations={Annotation.FIRST_KEY: f"other {'0' * 64} 2026-01-01T00:00:00Z"})


async def lift_the_finalizers(agent: Client, cluster: str) -> None:
    await forge_metadata(agent, cluster, finalizers=[])


async def be_owned_by_what_is_gone(agent: Client, cluster: str) -> None:
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}
    await forge_metadata(agent, cluster, ownerReferences=[owner])


async def hold_itself_by_a_finalizer(agent: Client, cluster: str) -> None:
    found = await agent.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    await forge_metadata(agent, cluster, finalizers=[*finalizers_of(found), "example.com/mine"])


async def label_itself_for_a_set(agent: Client, cluster: str) -> None:
    found = await agent.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))
    await forge_metadata(agent, cluster, labels={**labels_of(found), "tenant": "payments"})


async def act_as_root(agent: Client, _cluster: str) -> None:
    await agent.impersonating("kubernetes-admin", groups=("system:masters",)).list(SECRETS, namespace="kube-system")


async def act_as_the_same_user_with_more_groups(agent: Client, cluster: str) -> None:
    user = f"{OCM}:{cluster}:x"
    await agent.impersonating(user, groups=("system:masters",)).list(NAMESPACES)


async def delete_itself(agent: Client, cluster: str) -> None:
    await agent.delete(MANAGED_CLUSTERS, ObjectKey.cluster(cluster))


@pytest.mark.parametrize(
    "attempt",
    [
        pytest.param(approve_itself, id="approve a request"),
        pytest.param(enter_a_set, id="enter a set of clusters"),
        pytest.param(leave_its_set, id="leave its set of clusters"),
        pytest.param(give_its_name_away, id="give its name to another key"),
        pytest.param(lift_the_finalizers, id="lift what holds its cluster until all is gone"),
        pytest.param(be_owned_by_what_is_gone, id="be deleted with an owner"),
        pytest.param(hold_itself_by_a_finalizer, id="hold its cluster by a finalizer"),
        pytest.param(label_itself_for_a_set, id="select itself for a set by a label"),
        pytest.param(act_as_root, id="impersonate an administrator"),
        pytest.param(act_as_the_same_user_with_more_groups, id="impersonate with more groups"),
        pytest.param(delete_itself, id="delete its cluster"),
    ],
)
async def test_what_an_agent_may_not_do(fleet: FleetHarness, attempt: Callable[[Client, str], Awaitable[None]]) -> None:
    (name,) = await members(fleet, 1)
    agent = await taken_over(fleet, name)

    with pytest.raises(Forbidden):
        await attempt(agent, name)


async def test_denied_agent_cannot_accept_itself_again(fleet: FleetHarness) -> None:
    (name,) = await members(fleet, 1)
    agent = await taken_over(fleet, name)
    await fleet.accept(name, accepted=False)
    await fleet.condition(name, "HubAcceptedManagedCluster", "False", "HubClusterAdminDenied")

    found = await agent.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    for attempt in (
        agent.update(MANAGED_CLUSTERS, {**found, "spec": {"hubAcceptsClient": True}}),
        agent.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), {"spec": {"hubAcceptsClient": True}}),
        agent.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), {"status": {"conditions": []}}, subresource="status"),
    ):
        with pytest.raises(KubeError, match="forbidden"):
            await attempt
