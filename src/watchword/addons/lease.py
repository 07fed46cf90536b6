"""The lease by which the agent of an add-on shows on its own cluster that it is alive, and the right to renew it."""

import contextlib
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.addons.definition import AddonInstance
from watchword.api.credential_report import is_credential_id
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import SERVICE_ACCOUNT_USER_PREFIX, Annotation
from watchword.api.resources import LEASES, RBAC_GROUP, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.api.time import rfc3339_micro
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.runtime.clock import Clock

LEASE_SECONDS = 60


class AddonLease(Struct, frozen=True):
    """The lease named after the add-on, in the namespace of its agent."""

    client: Client
    key: ObjectKey
    clock: Clock
    seconds: int = LEASE_SECONDS

    async def renew(self, *, credential_id: str = "") -> None:
        """Write that the agent is alive now, and which credential for the hub it uses; raises what the server answers.

        The cluster's agent passes the id on to the hub, where `watchword status` shows whether a renewed credential is
        in use. `UsedCredential` asks the hub for it.
        """
        spec: Object = {"leaseDurationSeconds": self.seconds, "renewTime": rfc3339_micro(self.clock.now())}
        annotations = {Annotation.CREDENTIAL_IN_USE: credential_id} if is_credential_id(credential_id) else {}
        try:
            patch: Object = {"spec": spec, **({"metadata": {"annotations": annotations}} if annotations else {})}
            await self.client.patch(LEASES, self.key, patch)
        except NotFound:
            metadata = {"ownerReferences": await own_account(self.client), "annotations": annotations}
            await self.client.create(LEASES, LEASES.manifest(self.key, metadata=metadata, spec=spec))


class UsedCredential(Struct):
    """Which credential the hub sees on the requests of a client; asked for at most once in `every`."""

    hub: Client
    clock: Clock
    every: timedelta = timedelta(minutes=5)
    _id: str = ""
    _asked_at: datetime | None = None

    async def current(self) -> str:
        """Return the id as last told by the hub, empty when it does not tell: a hub out of reach changes nothing."""
        now = self.clock.now()
        if self._asked_at is None or now - self._asked_at >= self.every:
            self._asked_at = now
            with contextlib.suppress(KubeError):
                self._id = (await who_am_i(self.hub)).credential_id
        return self._id


async def own_account(client: Client) -> list[Object]:
    """Return the account that the agent runs as, as the owner of what it makes: both go with the add-on."""
    me = await who_am_i(client)
    name = me.username.rpartition(":")[2]
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "name": name, "uid": me.uid}
    return [account] if me.username.startswith(SERVICE_ACCOUNT_USER_PREFIX) else []


def lease_manifests(instance: AddonInstance) -> list[Object]:
    """Return an account named after the add-on that may renew the lease of that name, and nothing else.

    An agent that runs as this account reports its health by the lease. `create` cannot be restricted to a name;
    everything else is.
    """
    name, namespace = instance.addon.name, instance.addon.namespace_on_cluster()
    key = ObjectKey(namespace, name)
    rule = {"apiGroups": [LEASES.group], "resources": [LEASES.plural]}
    rules = [{**rule, "verbs": ["create"]}, {**rule, "verbs": ["get", "patch", "update"], "resourceNames": [name]}]
    return [
        SERVICE_ACCOUNTS.manifest(key),
        ROLES.manifest(key, rules=rules),
        ROLE_BINDINGS.manifest(
            key,
            roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "namespace": namespace, "name": name}],
        ),
    ]
