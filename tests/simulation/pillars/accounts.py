"""Managed service accounts: declared for one cluster or for a set, kept on clusters, used with their tokens."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random

from tests.simulation.access_probes import DENIED_WITHIN
from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.held_credentials import HeldCredential, addon_credential, secrets_in
from tests.simulation.hostile import accounts_client
from tests.simulation.incidents import Incident, incident
from tests.simulation.network import ProcessRun, SimulatedTransport
from tests.simulation.pillar import Pillar
from tests.simulation.pods import CredentialTransport, PodTransport, run_pod
from tests.simulation.settings import DAY, HOUR, MINUTE
from tests.simulation.timing import PATIENCE, SIGNER, follow_options

from watchword.accounts.agent.process import AccountsAgentOptions, AccountsAgentTiming, run_accounts_agent
from watchword.accounts.hub.account_guard import server_of
from watchword.accounts.hub.controllers import AccountsManagerOptions, run_accounts_manager
from watchword.accounts.hub.definition import DEPLOYMENT
from watchword.api.accounts import ADDON_NAME, AccountSecret, copy_name
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.names import ADDON_NAMESPACE, Annotation, ConditionType, Label, addon_service_account
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.lifecycle import read_bound_token
from watchword.kube.client import Client
from watchword.kube.endpoint import Endpoint
from watchword.runtime.manager import ManagerOptions
from watchword.runtime.work_queue import Quarantine
from watchword.testing.builders import an_addon

HUB = "accounts-hub"
STORED_EVENTS = Resource("", "v1", "events", "Event")  # both groups are stored as this
ROBOT, CREW = "robot", "crew"
TEAM = "team-a"  # a namespace, and the set that is bound to it
CREDENTIAL = ObjectKey(ADDON_NAMESPACE, f"{ADDON_NAME}-hub-kubeconfig")
OTHER_ADDRESS = "https://other.example:6443"  # of a cluster, as its ManagedCluster has it for a while
TAMPERED: tuple[Object, ...] = (
    {"metadata": {"labels": {Label.MANAGED_ACCOUNT: None}}},
    {"metadata": {"annotations": {Annotation.TOKEN_SERVER: "https://elsewhere.example:6443"}}},
    {"metadata": {"ownerReferences": None}},
    {"data": {"note": "bW9yZQ=="}},
    {"data": {"token": "c2NyaWJibGU="}},
    {"data": {"ca.crt": None}},
)
"""What people do to the Secret of an account."""


@dataclass
class Accounts(Pillar):
    """Each cluster has one account of its own, and one of the set that it is in."""

    name = "accounts"
    renewal_writes = (
        r"/secrets/(managed-serviceaccount-hub-kubeconfig|robot|crew|edge-\d+\.crew) 200$",
        r"/serviceaccounts/[^/]+/token 201$",
        r"/managedserviceaccounts/[^/]+/status 200$",
        r"/managedclusteraddons/[^/]+/status 200$",
    )
    routine_writes = (
        r"/leases/managed-serviceaccount 200$",
        r"/managedclusteraddons/managed-serviceaccount/status 200$",  # which credential the lease says is in use
    )
    _left: Counter[str] = field(default_factory=Counter)  # clusters that are not to be in the set now
    _used: dict[tuple[str, str, str], set[str]] = field(default_factory=dict)  # cluster, account, UID → good tokens
    _revoked: set[tuple[str, str, str]] = field(default_factory=set)  # cluster, account, token: for good

    async def start(self) -> None:
        """Run the hub side and one agent for each cluster; make the set and its namespace."""
        client = self.fleet.hub.administrator()
        await client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(TEAM)))
        selector = {"selectorType": "LabelSelector", "labelSelector": {"matchLabels": {"team": TEAM}}}
        spec = {"clusterSelector": selector}
        await client.create(MANAGED_CLUSTER_SETS, MANAGED_CLUSTER_SETS.manifest(ObjectKey.cluster(TEAM), spec=spec))
        binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(ObjectKey(TEAM, TEAM), spec={"clusterSet": TEAM})
        await client.create(MANAGED_CLUSTER_SET_BINDINGS, binding)
        link = self.fleet.hub_link(HUB)
        self.fleet.add_process(HUB, lambda run: self._run_hub(run, link.random), pillar=self.name)
        for member in self.members:
            self.fleet.add_process(
                f"{member.name}-accounts",
                lambda run, member=member: run_pod(  # type: ignore[misc]
                    member, ObjectKey(ADDON_NAMESPACE, DEPLOYMENT), lambda: self._run_agent(run, member)
                ),
                pillar=self.name,
                cluster=member.name,
            )

    async def _run_hub(self, run: ProcessRun, random: Random) -> None:
        transport = self.fleet.hub.administrator().transport
        client = Client(
            SimulatedTransport(transport, self.fleet.hub_links[HUB], run, self.fleet.history), random=random
        )
        manager = ManagerOptions(
            f"watchword.dev/addon-{ADDON_NAME}",
            ADDON_NAME,
            follow=follow_options(random),
            quarantine=Quarantine(backoff=PATIENCE),
        )
        options = AccountsManagerOptions(manager, install=False, clock=self.fleet.hub_clock, random=random)
        await run_accounts_manager(client, options)

    async def _run_agent(self, run: ProcessRun, member: SimulatedCluster) -> None:
        random = Random(member.random.random())
        account = ObjectKey(ADDON_NAMESPACE, ADDON_NAME)
        hub = member.over(CredentialTransport(self.fleet.hub, member, CREDENTIAL), member.to_hub, run)
        local = member.over(PodTransport(member.plane, member.stored, account), member.to_cluster, run)
        timing = AccountsAgentTiming(
            lease=DAY.total_seconds() / 3,
            authority=DAY.total_seconds(),
            signer=SIGNER,
            follow=follow_options(random),
            quarantine=Quarantine(backoff=PATIENCE),
            served=PATIENCE,
        )
        options = AccountsAgentOptions(
            member.name,
            ADDON_NAMESPACE,
            Endpoint(member.plane.server, member.plane.ca_pem),
            connect=lambda token: member.over(member.plane.as_token(token.reveal()), member.to_cluster, run),
            clock=member.clock,
            random=random,
            timing=timing,
        )
        await run_accounts_agent(hub, local, options)

    async def round(self) -> None:
        """Enable the add-on, put the clusters into the set, and declare the accounts, as often as they are gone."""
        await self._declare(ObjectKey(TEAM, CREW))
        for member in self.settled_members:
            if not self.admin.is_accepted(member.name):
                continue
            await self._set_team(member.name, None if self._left[member.name] else TEAM)
            key = ObjectKey(member.name, ADDON_NAME)
            if self.fleet.stored.get(MANAGED_CLUSTER_ADDONS, key) is None:
                addon = an_addon(ADDON_NAME, cluster=member.name)
                await self.admin.insist(lambda addon=addon: self.admin.client.create(MANAGED_CLUSTER_ADDONS, addon))  # type: ignore[misc]
            await self._declare(ObjectKey(member.name, ROBOT))
            account = self.fleet.stored.get(MANAGED_SERVICE_ACCOUNTS, ObjectKey(member.name, ROBOT)) or {}
            said = find_condition(account, ConditionType.ALL_ACCOUNTS_PRESENT)
            if said is not None and said.reason == "NameConflict":  # as its message says
                await quietly(member.client().delete(SERVICE_ACCOUNTS, ObjectKey(ADDON_NAMESPACE, ROBOT)))

    async def _declare(self, key: ObjectKey) -> None:
        if self.fleet.stored.get(MANAGED_SERVICE_ACCOUNTS, key) is None:
            settings = self.fleet.settings
            validity = int(max(settings.longest_life / 2, settings.shortest_life).total_seconds())
            spec = {"rotation": {"validity": f"{validity}s"}}
            manifest = MANAGED_SERVICE_ACCOUNTS.manifest(key, spec=spec)
            await self.admin.insist(lambda: self.admin.client.create(MANAGED_SERVICE_ACCOUNTS, manifest))

    async def _set_team(self, cluster: str, team: str | None) -> None:
        found = self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster)) or {}
        if (found.get("metadata", {}).get("labels") or {}).get("team") != team:
            patch = {"metadata": {"labels": {"team": team}}}
            await self.admin.insist(
                lambda: self.admin.client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(cluster), patch)
            )

    async def step(self) -> None:
        """Let the agents of denied clusters try to reach their accounts."""
        for member in self.members:
            if self.fleet.standing[member.name].is_denied_in_peace(since=self.fleet.elapsed - DENIED_WITHIN):
                listed = accounts_client(member).list(MANAGED_SERVICE_ACCOUNTS, namespace=member.name)
                what = f"the agent of a denied cluster, {member.name}, to list accounts"
                await self.prober.expect_refused(listed, what)

    async def hour(self) -> None:
        """Use every token: one that is reported works, and none works whose revocation was reported."""
        for member in self.members:
            for account, secret in self._accounts(member):
                await self._use(member, account, secret)
        for cluster, name, uid in list(self._used):
            if self._says_revoked(uid):  # for a while, for Events end and a restored hub has none
                self._revoked |= {(cluster, name, token) for token in self._used.pop((cluster, name, uid))}
        for cluster, name, token in sorted(self._revoked):
            if await self.fleet.members[cluster].plane.accepts(token):
                self.violations.add(f"{cluster} accepts a token of {name}, whose revocation was reported", cluster)

    def _accounts(self, member: SimulatedCluster) -> Iterator[tuple[Object, Object | None]]:
        """Yield the accounts of a cluster, each with the Secret that its consumers read."""
        stored = self.fleet.stored
        copy = ObjectKey(TEAM, copy_name(member.name, CREW))
        for name, secret in ((ROBOT, ObjectKey(member.name, ROBOT)), (CREW, copy)):
            account = stored.get(MANAGED_SERVICE_ACCOUNTS, ObjectKey(member.name, name))
            if account is not None:
                yield account, stored.get(SECRETS, secret)

    async def _use(self, member: SimulatedCluster, account: Object, secret: Object | None) -> None:
        name, said = account["metadata"]["name"], AccountSecret.read(secret or {})
        token = said.token.reveal()
        accepted = await member.plane.accepts(token) if token.isascii() and token else False
        if accepted:
            self._used.setdefault((member.name, name, uid_of(account)), set()).add(token)
        whole = self.fleet.stored.get(MANAGED_SERVICE_ACCOUNTS, ObjectKey(TEAM, CREW)) if name == CREW else None
        is_present = whole is None or is_true(whole, ConditionType.ALL_ACCOUNTS_PRESENT)
        is_reported = is_true(account, ConditionType.TOKEN_REPORTED) and not is_deleting(account)
        # A cluster without a good credential of its own cannot take a report back: it waits for a person, who is told.
        is_current = not self.admin.lacks_credential(member.name)
        is_due = is_reported and is_current and is_present
        wrong = is_due and accepted is False
        self.expect(f"the token of {name} is reported and refused", broken=wrong, cluster=member.name)
        known = server_of(self.fleet.stored.get(MANAGED_CLUSTERS, ObjectKey.cluster(member.name)) or {})
        noted = said.annotations.get(Annotation.TOKEN_SERVER, "")  # what a person wrote stays while the hub knows none
        is_elsewhere = noted != known if known else noted in ("", OTHER_ADDRESS)
        self.expect(f"the token of {name} has another address", broken=is_due and is_elsewhere, cluster=member.name)
        is_foreign = said.ca != member.plane.ca_pem
        self.expect(f"the token of {name} has another authority", broken=is_due and is_foreign, cluster=member.name)

    def _says_revoked(self, uid: str) -> bool:
        return any(
            event.get("reason") == "AccountRevoked"
            and uid in str(event.get("involvedObject") or event.get("regarding"))
            for event in self.fleet.stored.list(STORED_EVENTS)
        )

    def held(self) -> Iterator[HeldCredential]:
        """Yield the tokens that the hub has for consumers, and the credentials of the agents."""
        for member in self.members:
            if (own := addon_credential(member, ADDON_NAME, "accounts agent")) is not None:
                yield own
            for account, secret in self._accounts(member):
                facts = None if secret is None else read_bound_token(AccountSecret.read(secret).token.reveal())
                if facts is not None and not is_deleting(account):
                    what = f"account {account['metadata']['name']}"
                    yield HeldCredential(what, member.name, member.name, facts.issued_at, facts.expires_at)

    def secret_values(self) -> Iterator[tuple[str, bytes]]:
        """Yield the tokens, and the keys of the agents."""
        for member in self.members:
            for account, secret in self._accounts(member):
                if secret is not None:
                    token = AccountSecret.read(secret).token.reveal().encode()
                    yield f"token of {account['metadata']['name']} on {member.name}", token
            data = decode_data(member.stored.get(SECRETS, CREDENTIAL))
            yield from ((f"accounts {what} of {member.name}", value) for what, value in secrets_in(data))

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Every account is on its cluster, once, and its token is reported."""
        for member in self.members:
            found = {account["metadata"]["name"]: (account, secret) for account, secret in self._accounts(member)}
            for name in (ROBOT, CREW):
                account, secret = found.get(name, ({}, None))
                if secret is None or not is_true(account, ConditionType.TOKEN_REPORTED):
                    said = find_condition(account, ConditionType.TOKEN_REPORTED)
                    yield f"{member.name}: account {name} has no token: {said}", member.name
            local = [obj["metadata"]["name"] for obj in member.stored.list(SERVICE_ACCOUNTS, ADDON_NAMESPACE)]
            if sorted(local) != sorted((ROBOT, CREW, ADDON_NAME)):
                yield f"{member.name}: it has the ServiceAccounts {local}", member.name

    def expected_objects(self) -> Mapping[Resource, Iterable[ObjectKey]]:
        """Return the rights of each agent at the hub."""
        names = [member.name for member in self.members]
        tokens = [member.name for member in self.members if member.profile.addon == "token"]
        roles = [ObjectKey(name, f"{ADDON_NAME}-token-role") for name in tokens]
        return {
            ROLES: roles,
            ROLE_BINDINGS: roles,
            SERVICE_ACCOUNTS: [ObjectKey(name, addon_service_account(name, ADDON_NAME)) for name in tokens],
            SECRETS: [ObjectKey(TEAM, copy_name(name, CREW)) for name in names],
        }

    def expected_secrets(self, member: SimulatedCluster) -> int:
        """Return one: the credential of the agent."""
        return int(member in self.members)

    async def _local(self, incident: Incident, patch: Object | None) -> bool:
        """Change or delete the ServiceAccount of an account on its cluster."""
        member, key = self.fleet.members[incident.target], ObjectKey(ADDON_NAMESPACE, ROBOT)
        client = member.client()
        attempt = client.delete(SERVICE_ACCOUNTS, key) if patch is None else client.patch(SERVICE_ACCOUNTS, key, patch)
        return await quietly(attempt)

    @incident(2, MINUTE, DAY)
    async def account_deleted(self, incident: Incident) -> AsyncIterator[None]:
        """The account is deleted, and declared again."""
        await self._delete(ObjectKey(incident.target, ROBOT))
        yield

    async def _delete(self, key: ObjectKey) -> None:
        await quietly(self.admin.client.delete(MANAGED_SERVICE_ACCOUNTS, key))

    @incident(2, MINUTE, HOUR)
    async def account_unmarked_and_deleted(self, incident: Incident) -> AsyncIterator[None]:
        """The marks of the ServiceAccount on the cluster are removed, and the account is deleted at once."""
        await self._local(incident, _without_marks(incident))
        await self._delete(ObjectKey(incident.target, ROBOT))
        yield

    @incident(2, HOUR)
    async def account_unmarked(self, incident: Incident) -> AsyncIterator[None]:
        """The marks of the ServiceAccount on the cluster are removed."""
        await self._local(incident, _without_marks(incident))
        yield

    @incident(2, HOUR)
    async def local_account_lost(self, incident: Incident) -> AsyncIterator[None]:
        """The ServiceAccount is deleted on the cluster."""
        await self._local(incident, None)
        yield

    @incident(1, HOUR)
    async def agent_account_replaced(self, incident: Incident) -> AsyncIterator[None]:
        """The ServiceAccount that the agent runs as is deleted and created again: what it owned goes with it."""
        client, key = self.fleet.members[incident.target].client(), ObjectKey(ADDON_NAMESPACE, ADDON_NAME)
        if await quietly(client.delete(SERVICE_ACCOUNTS, key)):
            await quietly(client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)))
        yield

    @incident(1, MINUTE, DAY)
    async def account_name_taken(self, incident: Incident) -> AsyncIterator[None]:
        """The ServiceAccount is replaced by one of another hand, which goes later."""
        member, key = self.fleet.members[incident.target], ObjectKey(ADDON_NAMESPACE, ROBOT)
        await self._local(incident, None)
        taken = await quietly(member.client().create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)))
        yield
        if taken:
            await self._local(incident, None)

    @incident(3, HOUR)
    async def token_secret_changed(self, incident: Incident) -> AsyncIterator[None]:
        """The Secret of the account at the hub, or its copy, is changed or deleted."""
        names = (ObjectKey(incident.target, ROBOT), ObjectKey(TEAM, copy_name(incident.target, CREW)))
        change = incident.choose((None, *TAMPERED))
        for key in names:
            client = self.admin.client
            await quietly(client.delete(SECRETS, key) if change is None else client.patch(SECRETS, key, change))
        yield

    @incident(2, MINUTE, 2 * DAY)
    async def set_left(self, incident: Incident) -> AsyncIterator[None]:
        """The cluster leaves the set, and joins it again."""
        self._left[incident.target] += 1
        await self._set_team(incident.target, None)
        yield
        self._left[incident.target] -= 1

    @incident(1, MINUTE, DAY, fleet_wide=True)
    async def set_unbound(self, _: Incident) -> AsyncIterator[None]:
        """The namespace is no longer bound to the set, and is again."""
        await quietly(self.admin.client.delete(MANAGED_CLUSTER_SET_BINDINGS, ObjectKey(TEAM, TEAM)))
        yield
        binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(ObjectKey(TEAM, TEAM), spec={"clusterSet": TEAM})
        await self.admin.insist(lambda: self.admin.client.create(MANAGED_CLUSTER_SET_BINDINGS, binding))

    @incident(1, MINUTE, DAY)
    async def server_address_changed(self, incident: Incident) -> AsyncIterator[None]:
        """The hub gets another address of the cluster, and loses it again."""
        key = ObjectKey.cluster(incident.target)
        for configs in ([{"url": OTHER_ADDRESS}], None):
            patch = {"spec": {"managedClusterClientConfigs": configs}}
            await quietly(self.admin.client.patch(MANAGED_CLUSTERS, key, patch))
            if configs:
                yield

    @incident(1, MINUTE, DAY)
    async def accounts_disabled(self, incident: Incident) -> AsyncIterator[None]:
        """The add-on is disabled, and enabled again."""
        await quietly(self.admin.client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(incident.target, ADDON_NAME)))
        yield

    @incident(1, MINUTE, 6 * HOUR)
    async def agent_role_taken(self, incident: Incident) -> AsyncIterator[None]:
        """A role of the agent at the hub is replaced by one of another hand, which goes later."""
        key = ObjectKey(incident.target, f"open-cluster-management:{ADDON_NAME}:accounts:agent")
        taken = await self.admin.take_role(key)
        yield
        if taken:
            await self.admin.insist(lambda: self.admin.client.delete(ROLES, key))

    @incident(1, HOUR)
    async def account_rotation(self, incident: Incident) -> AsyncIterator[None]:
        """Another token is requested several times in a row."""
        for _ in range(3):
            patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(self.fleet.now)}}}
            await quietly(self.admin.client.patch(MANAGED_SERVICE_ACCOUNTS, ObjectKey(incident.target, ROBOT), patch))
            await asyncio.sleep(incident.amount * 5)
        yield


def _without_marks(incident: Incident) -> Object:
    gone: Object = {"labels": {Label.MANAGED_ACCOUNT: None}}
    if incident.amount > 0.3:
        gone["annotations"] = {Annotation.ACCOUNT_UID: None}
    if incident.amount > 0.6:
        gone["ownerReferences"] = None
    return {"metadata": gone}
