"""How the agent of an add-on runs on its own cluster, and the lease by which it shows there that it is alive."""

import contextlib
from datetime import datetime, timedelta

from msgspec import Struct

from watchword.addons.definition import AddonInstance
from watchword.api.credential_report import is_credential_id
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import SERVICE_ACCOUNT_USER_PREFIX, Annotation
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.resources import DEPLOYMENTS, LEASES, RBAC_GROUP, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.api.time import rfc3339_micro
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.runtime.clock import Clock

LEASE_SECONDS = 60
CREDENTIAL_MOUNT = "/managed/hub-kubeconfig"


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
    name = instance.addon.name
    rule = {"apiGroups": [LEASES.group], "resources": [LEASES.plural]}
    rules = [{**rule, "verbs": ["create"]}, {**rule, "verbs": ["get", "patch", "update"], "resourceNames": [name]}]
    account = SERVICE_ACCOUNTS.manifest(ObjectKey(instance.addon.namespace_on_cluster(), name))
    return [account, *agent_role(instance, name, rules)]


def agent_role(instance: AddonInstance, name: str, rules: list[Object]) -> list[Object]:
    """Return a Role in the namespace of the add-on's agent, and its binding to the account of `lease_manifests`."""
    namespace = instance.addon.namespace_on_cluster()
    key = ObjectKey(namespace, name)
    return [
        ROLES.manifest(key, rules=rules),
        ROLE_BINDINGS.manifest(
            key,
            roleRef={"apiGroup": RBAC_GROUP, "kind": "Role", "name": name},
            subjects=[{"kind": "ServiceAccount", "namespace": namespace, "name": instance.addon.name}],
        ),
    ]


def agent_deployment(instance: AddonInstance, name: str, labels: dict[str, str], image: str, *args: str) -> Object:
    """Return the agent's Deployment: one replica, with the account of `lease_manifests` and the add-on's credential."""
    addon = instance.addon.name
    container = {
        "name": "agent",
        "image": image,
        "args": [args[0], f"--hub-kubeconfig={CREDENTIAL_MOUNT}/kubeconfig", *args[1:]],
        "volumeMounts": [{"name": "hub", "mountPath": CREDENTIAL_MOUNT, "readOnly": True}],
        "securityContext": dict(CONTAINER_SECURITY),
    }
    pod = {
        "serviceAccountName": addon,
        "securityContext": dict(POD_SECURITY),
        "containers": [container],
        "volumes": [{"name": "hub", "secret": {"secretName": f"{addon}-hub-kubeconfig"}}],
    }
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return DEPLOYMENTS.manifest(ObjectKey(instance.addon.namespace_on_cluster(), name), spec=spec)
