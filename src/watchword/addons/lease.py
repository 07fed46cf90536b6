"""The lease by which the agent of an add-on shows on its own cluster that it is alive."""

from __future__ import annotations

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import LEASES
from watchword.api.time import rfc3339_micro
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.runtime.clock import Clock

LEASE_SECONDS = 60
SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


class AddonLease(Struct, frozen=True):
    """The lease named after the add-on, in the namespace of its agent."""

    client: Client
    key: ObjectKey
    clock: Clock

    async def renew(self) -> None:
        """Write that the agent is alive now; raises what the server answers."""
        spec: Object = {"leaseDurationSeconds": LEASE_SECONDS, "renewTime": rfc3339_micro(self.clock.now())}
        try:
            await self.client.patch(LEASES, self.key, {"spec": spec})
        except NotFound:
            owners = await own_account(self.client)
            await self.client.create(LEASES, LEASES.manifest(self.key, metadata={"ownerReferences": owners}, spec=spec))


async def own_account(client: Client) -> list[Object]:
    """Return the account that the agent runs as, as the owner of what it makes: both go with the add-on."""
    me = await who_am_i(client)
    name = me.username.rpartition(":")[2]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": me.uid}
    return [account] if me.username.startswith(SERVICE_ACCOUNT_PREFIX) else []
