"""An add-on on some clusters, with a token or a certificate for the hub."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from tests.simulation.access_probes import DENIED_WITHIN
from tests.simulation.administrator import quietly
from tests.simulation.cluster import SimulatedCluster
from tests.simulation.held_credentials import (
    ADDON,
    ADDON_SECRET,
    HeldCredential,
    addon_credential,
    cluster_credential,
    read_endpoint,
    secrets_in,
)
from tests.simulation.incidents import Incident, incident
from tests.simulation.pillar import Pillar
from tests.simulation.settings import DAY, HOUR, MINUTE

from watchword.addons.token.agent import TOKEN
from watchword.api.conditions import find_condition, is_true
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting
from watchword.api.names import ConditionType, addon_group, addon_service_account
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, ROLE_BINDINGS, ROLES, SECRETS, SERVICE_ACCOUNTS
from watchword.credentials.certificates.agent import CERTIFICATE
from watchword.credentials.credential_secret import decode_data
from watchword.testing.builders import an_addon

KUBE_CLIENT: list[Object] = [{"type": "kubeClient"}]


class Addons(Pillar):
    """Two of three clusters have the add-on, one with each driver."""

    name = "addons"
    renewal_writes = (
        r"/secrets/reporter-hub-kubeconfig 200$",
        r"/serviceaccounts/[^/]+/token 201$",
        r"/managedclusteraddons/[^/]+/status 200$",
    )

    async def _enable(self, cluster: str) -> None:
        key = ObjectKey(cluster, ADDON)
        found = self.fleet.stored.get(MANAGED_CLUSTER_ADDONS, key)
        client = self.admin.client
        if found is None:
            manifest = an_addon(ADDON, cluster=cluster)
            found = await self.admin.insist(lambda: client.create(MANAGED_CLUSTER_ADDONS, manifest))
        if found and not is_deleting(found) and not (found.get("status") or {}).get("registrations"):
            patch = {"status": {"registrations": KUBE_CLIENT}}
            await self.admin.insist(lambda: client.patch(MANAGED_CLUSTER_ADDONS, key, patch, subresource="status"))

    async def step(self) -> None:
        """Show tokens to the hub: a refused one is replaced, one of a denied cluster is refused; read kubeconfigs."""
        for member in self.members:
            standing, token = self.fleet.standing[member.name], self.prober.token_of(member)
            if token and standing.is_denied_in_peace(since=self.fleet.elapsed - DENIED_WITHIN):
                await self.prober.expect_token_refused(member.name, token, "is denied")
        for member in self.settled_members:
            token, own = self.prober.token_of(member), cluster_credential(member)
            is_due = bool(token) and own is not None and own.expires_at > self.fleet.now
            refused = is_due and await self.fleet.hub.accepts(token) is False
            self.expect("the hub refuses the token of its add-on", broken=refused, cluster=member.name)
            is_held = addon_credential(member) is not None and own is not None and own.expires_at > self.fleet.now
            named, hub = read_endpoint(decode_data(member.stored.get(SECRETS, ADDON_SECRET))), self.fleet.hub
            is_named = named.server == hub.server and hub.authority.certificate.pem in named.ca_data
            what = "the kubeconfig of its add-on does not name the hub and its authority"
            self.expect(what, broken=is_held and not is_named, cluster=member.name)

    async def round(self) -> None:
        """Enable the add-on on accepted clusters, as often as it is removed; show the certificates to the hub."""
        for member in self.settled_members:
            if self.admin.is_accepted(member.name):
                await self._enable(member.name)
            if self.prober.is_turn_of(member):
                refused = await self._is_certificate_refused(member)
                what = "the hub refuses the certificate of its add-on, which is reported good"
                self.expect(what, broken=refused, cluster=member.name)

    async def _is_certificate_refused(self, member: SimulatedCluster) -> bool:
        addon = self.fleet.stored.get(MANAGED_CLUSTER_ADDONS, ObjectKey(member.name, ADDON))
        held, chain = addon_credential(member), _certificate(member)
        if addon is None or held is None or not chain or held.expires_at <= self.fleet.now:
            return False
        is_reported = is_true(addon, ConditionType.CERTIFICATE_ROTATED)
        return is_reported and await self.prober.is_certificate_refused(chain, addon_group(member.name, ADDON))

    def held(self) -> Iterator[HeldCredential]:
        """Yield the credentials that can be expected: those of clusters whose own are good."""
        for member in self.members:
            if (found := addon_credential(member)) is not None:
                yield found

    def secret_values(self) -> Iterator[tuple[str, bytes]]:
        """Yield keys and tokens."""
        for member in self.members:
            data = decode_data(member.stored.get(SECRETS, ADDON_SECRET))
            yield from ((f"add-on {what} of {member.name}", value) for what, value in secrets_in(data))

    def waiting(self) -> Iterator[tuple[str, str, tuple[str, ...]]]:
        """Yield the clusters whose add-on has a credential that has expired, or that have an add-on without rights."""
        for member in self.settled_members:
            for addon in self.fleet.stored.list(MANAGED_CLUSTER_ADDONS, member.name):
                said = find_condition(addon, ConditionType.REGISTRATION_APPLIED)
                if said is not None and said.status == "False" and self.admin.is_accepted(member.name):
                    yield f"{addon['metadata']['name']} has no rights", member.name, ("AddOn",)
            held, key = addon_credential(member), ObjectKey(member.name, ADDON)
            is_expired = held is not None and held.expires_at <= self.fleet.now
            if is_expired and self.fleet.stored.get(MANAGED_CLUSTER_ADDONS, key) is not None:
                yield "the credential of its add-on has expired", member.name, ("AddOn", "Credential")

    def unsettled(self) -> Iterator[tuple[str, str]]:
        """Every add-on has a credential."""
        for member in self.members:
            held = addon_credential(member)
            if held is None or held.expires_at <= self.fleet.now:
                yield f"{member.name}: its add-on has no credential ({member.profile.addon})", member.name

    def expected_objects(self) -> Mapping[Resource, Iterable[ObjectKey]]:
        """Return one account, role and binding for each add-on with a token."""
        names = [member.name for member in self.members if member.profile.addon == "token"]
        roles = [ObjectKey(name, f"{ADDON}-token-role") for name in names]
        accounts = [ObjectKey(name, addon_service_account(name, ADDON)) for name in names]
        return {ROLES: roles, ROLE_BINDINGS: roles, SERVICE_ACCOUNTS: accounts}

    def expected_secrets(self, member: SimulatedCluster) -> int:
        """Return one: that of the add-on."""
        return int(member in self.members)

    @incident(2, HOUR)
    async def addon_credential_lost(self, incident: Incident) -> AsyncIterator[None]:
        """The add-on's credential is deleted."""
        await quietly(self.fleet.members[incident.target].client().delete(SECRETS, ADDON_SECRET))
        yield

    @incident(1, HOUR)
    async def addon_token_damaged(self, incident: Incident) -> AsyncIterator[None]:
        """The token or the kubeconfig of the add-on is overwritten."""
        patch = {"data": {incident.choose((TOKEN, "kubeconfig")): "c2NyaWJibGU="}}
        await quietly(self.fleet.members[incident.target].client().patch(SECRETS, ADDON_SECRET, patch))
        yield

    @incident(2, HOUR)
    async def account_lost(self, incident: Incident) -> AsyncIterator[None]:
        """The add-on's ServiceAccount is deleted."""
        name = incident.target
        account = ObjectKey(name, addon_service_account(name, ADDON))
        old = self.prober.token_of(self.fleet.members[name])
        deleted = await quietly(self.admin.client.delete(SERVICE_ACCOUNTS, account))
        yield
        if deleted and old:
            await self.prober.expect_token_refused(name, old, "had its ServiceAccount deleted")

    @incident(1, MINUTE, 6 * HOUR)
    async def addon_role_taken(self, incident: Incident) -> AsyncIterator[None]:
        """The role that an add-on needs for its token is replaced by one of another hand, which goes later."""
        key = ObjectKey(incident.target, f"{ADDON}-token-role")
        taken = await self.admin.take_role(key)
        yield
        if taken:
            await self.admin.insist(lambda: self.admin.client.delete(ROLES, key))

    @incident(1, MINUTE, DAY)
    async def addon_removed(self, incident: Incident) -> AsyncIterator[None]:
        """The add-on is removed, and comes back."""
        await quietly(self.admin.client.delete(MANAGED_CLUSTER_ADDONS, ObjectKey(incident.target, ADDON)))
        yield


def _certificate(member: SimulatedCluster) -> bytes:
    """Return the certificate of a cluster's add-on, empty when it has a token."""
    data = decode_data(member.stored.get(SECRETS, ADDON_SECRET))
    return b"" if TOKEN in data else data.get(CERTIFICATE, b"")
