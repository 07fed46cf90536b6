"""Removes a hub from its cluster: first what runs, then what it manages, then what `init` made."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

from msgspec import Struct

from watchword.accounts.grants import GRANTS
from watchword.admin import hub_setup
from watchword.admin.addons import accounts_bundle
from watchword.admin.apply import list_if_served
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.hub_backup import FLEET_KINDS
from watchword.admin.wait import ObjectWaiter
from watchword.admin.workloads import unneeded_operator_objects
from watchword.api import resources
from watchword.api.admission_policy import PolicyName
from watchword.api.bootstrap import CLUSTER_INFO, MANAGED_CLUSTER_GROUP, TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_TYPE
from watchword.api.conditions import is_true
from watchword.api.crds import HUB_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, finalizers_of, is_deleting, uid_of
from watchword.api.names import (
    AGENT_NAMESPACE,
    BOOTSTRAP_NAMESPACE,
    HUB_NAMESPACE,
    PULL_SECRETS_NAMESPACE,
    ConditionType,
    Label,
)
from watchword.api.pull_secrets import CONFIGURATION, LEGACY_TOKEN
from watchword.api.sensitive import HiddenFields
from watchword.discovery.discover import PollAgain, PollOptions, Progress, ignore_progress, poll_until
from watchword.discovery.setup import FIELD_MANAGER, discovery_bindings
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.health.formatting import format_count
from watchword.health.states import is_accepted
from watchword.kube.client import Client
from watchword.kube.errors import NotFound
from watchword.operator.cluster_manager import accounts_binding, hub_manifests
from watchword.operator.rbac import DEFINITIONS
from watchword.pullsecrets.inventory import read_pull_secrets
from watchword.registration.hub import installation
from watchword.runtime.manifests import is_own_definition

OPERATOR_PATIENCE = timedelta(seconds=25)  # for the operator to stop the controllers, if it runs
DELETION_PATIENCE = timedelta(minutes=2)  # for the API server to delete what is in namespaces, and of kinds
_LABELLED = (  # kinds of which a cluster's objects have its name as a label
    resources.CERTIFICATE_SIGNING_REQUESTS,
    resources.ROLE_BINDINGS,
    resources.CLUSTER_ROLE_BINDINGS,
    resources.CLUSTER_ROLES,
    resources.NAMESPACES,
)
_SHARED = (resources.NAMESPACES, resources.CUSTOM_RESOURCE_DEFINITIONS)  # removed last, and not always


class HubRemoval(HiddenFields, frozen=True):
    """What is removed, in this order, and what stays with the reason."""

    hidden = ("rows",)

    rows: tuple[Manifest, ...]
    kept: tuple[str, ...] = ()


class HubRemover(Struct, frozen=True):
    """Plans and carries out the removal; a run that was interrupted is finished by the next one."""

    client: Client
    progress: Progress = ignore_progress
    delete_kinds: bool = False  # with every object of them

    async def plan(self, *, force: bool) -> HubRemoval:
        """Return the objects of the hub; `OperationRefused` for another system's, or while it has clusters."""
        if await hub_setup.has_foreign_manager(self.client):
            raise OperationRefused("another system installed this hub: remove it as that system's documentation says")
        clusters = await list_if_served(self.client, resources.MANAGED_CLUSTERS)
        members = sorted(
            obj["metadata"]["name"] for obj in clusters if is_accepted(obj) or is_true(obj, ConditionType.JOINED)
        )
        if members and not force:
            shown = f"{', '.join(members[:3])}{', …' if len(members) > 3 else ''}"
            count = f"{format_count(len(members), 'cluster')} {'is' if len(members) == 1 else 'are'}"
            raise OperationRefused(
                f"{count} in this hub ({shown}): run `watchword unjoin` on each and delete its "
                f"ManagedCluster, or give --force, which leaves their agents behind"
            )
        agents = await list_if_served(self.client, resources.KLUSTERLETS)
        rows = [*await self._running(), *await self._fleet(), *await self._installed(agents)]
        unique = {
            (resource, ObjectKey.of(obj)): (resource, obj)
            for resource, obj in rows
            if (resource not in _SHARED or not is_deleting(obj))
        }
        return HubRemoval(tuple(unique.values()), tuple(self._kept(agents)))

    async def carry_out(self, removal: HubRemoval) -> None:
        """Delete everything; finalizers whose controllers are gone are removed. Raises `NotReady` for what stays."""
        for resource, obj in removal.rows:
            await self._delete(resource, obj)
        waiter = ObjectWaiter(self.client, DELETION_PATIENCE, self.progress)
        for resource, obj in removal.rows:
            if resource in _SHARED:
                key = ObjectKey.of(obj)
                advice = f"see what holds it with `kubectl get {resource.plural} {key.name} -o yaml`"
                await waiter.until_gone(resource, key, advice=advice)

    async def _running(self) -> list[Manifest]:
        """Return the ClusterManagers, what was deployed for them, and what of the operator no agent needs."""
        managers = await list_if_served(self.client, resources.CLUSTER_MANAGERS)
        deployed = [row for manager in managers for row in (*hub_manifests(manager), accounts_binding(manager))]
        operator = await unneeded_operator_objects(self.client, AGENT_NAMESPACE, hub_goes=True)
        rows = [row for row in (*operator, *reversed(deployed)) if row[0] not in _SHARED]
        return [*((resources.CLUSTER_MANAGERS, manager) for manager in managers), *await self._present(rows)]

    async def _fleet(self) -> list[Manifest]:
        kinds = [kind for kind in reversed(FLEET_KINDS) if kind is not resources.CLUSTER_MANAGERS]
        objects = [(kind, obj) for kind in kinds for obj in await list_if_served(self.client, kind)]
        for kind in _LABELLED:
            objects += [(kind, obj) for obj in await list_if_served(self.client, kind, labels=Label.CLUSTER_NAME)]
        return objects

    async def _installed(self, agents: Sequence[Object]) -> list[Manifest]:
        """Return what `init` and the hub's controllers made, the kinds last."""
        made = [*accounts_bundle(), *installation.manifests(), *discovery_bindings(), *_policies()]
        rows = [row for row in reversed(made) if row[0] not in _SHARED]
        places = (HUB_NAMESPACE,) if agents else (HUB_NAMESPACE, BOOTSTRAP_NAMESPACE)
        rows += [(resources.CONFIG_MAPS, resources.CONFIG_MAPS.manifest(GRANTS))]
        rows += [(resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name))) for name in places]
        kinds = await self._definitions(agents) if self.delete_kinds else []
        return [*await self._published(), *await self._tokens(), *await self._present(rows), *kinds]

    async def _published(self) -> list[Manifest]:
        """Return cluster-info when `init` wrote it; kubeadm's is not ours."""
        found = await self.client.find(resources.CONFIG_MAPS, CLUSTER_INFO)
        managers = {row.get("manager") for row in ((found or {}).get("metadata") or {}).get("managedFields") or ()}
        return [(resources.CONFIG_MAPS, found)] if found is not None and managers & {FIELD_MANAGER} else []

    async def _tokens(self) -> list[Manifest]:
        secrets = await self.client.list(
            resources.SECRETS, namespace=TOKEN_SECRET_NAMESPACE, fields=f"type={TOKEN_SECRET_TYPE}"
        )
        return [(resources.SECRETS, obj) for obj in secrets.items if _is_join_token(obj)]

    async def _definitions(self, agents: Sequence[Object]) -> list[Manifest]:
        needed = {obj["metadata"]["name"] for obj in DEFINITIONS} if agents else set()
        ours = [obj for obj in (*ACCOUNT_CRDS, *HUB_CRDS, *DEFINITIONS) if obj["metadata"]["name"] not in needed]
        found = await self._present((resources.CUSTOM_RESOURCE_DEFINITIONS, obj) for obj in ours)
        return [row for row in found if is_own_definition(row[1], installation.FIELD_MANAGER)]

    def _kept(self, agents: Sequence[Object]) -> Iterable[str]:
        if agents:
            yield f"the operator and the namespace {BOOTSTRAP_NAMESPACE}: this cluster belongs to a hub, too"
        if not self.delete_kinds:
            yield "the kinds (CustomResourceDefinitions): give --delete-kinds to remove them"

    async def _delete(self, resource: Resource, obj: Object) -> None:
        key = ObjectKey.of(obj)
        try:
            await self.client.delete(resource, key, uid=uid_of(obj))
            if resource is resources.CLUSTER_MANAGERS and finalizers_of(obj):
                # Let the operator stop the controllers, so that they make nothing anew; where none runs, go on.
                waiter = ObjectWaiter(self.client, OPERATOR_PATIENCE, self.progress)
                try:
                    await waiter.until_gone(resources.CLUSTER_MANAGERS, key, advice="")
                except NotReady:
                    self.progress("no operator has stopped the controllers: stop `watchword hub` where it runs")
            if resource not in _SHARED and finalizers_of(obj):
                await self.client.patch(resource, key, {"metadata": {"finalizers": None, "uid": uid_of(obj)}})
        except NotFound:
            return

    async def _present(self, rows: Iterable[Manifest]) -> list[Manifest]:
        found = [(resource, await self.client.find(resource, ObjectKey.of(obj))) for resource, obj in rows]
        return [(resource, obj) for resource, obj in found if obj is not None]


def _is_join_token(secret: Object) -> bool:
    record = read_token_secret(secret)
    return isinstance(record, TokenRecord) and MANAGED_CLUSTER_GROUP in record.groups


def _policies() -> list[Manifest]:
    kinds = (resources.VALIDATING_ADMISSION_POLICIES, resources.VALIDATING_ADMISSION_POLICY_BINDINGS)
    return [(kind, kind.manifest(ObjectKey.cluster(PolicyName.AGENT_TOKENS.value))) for kind in kinds]


PAUSE = timedelta(seconds=2)


async def remove_pull_secrets(client: Client, patience: timedelta, progress: Progress = ignore_progress) -> bool:
    """Switch pull secrets off and wait until none is left; False when they are not installed.

    Legacy pairs stay, without our finalizer. `NotReady` when the controllers do not remove the rest in time.
    """
    try:
        await client.patch(resources.CONFIG_MAPS, CONFIGURATION, {"data": {"enabled": "false"}})
    except NotFound:
        return False

    async def look() -> None:
        found = await read_pull_secrets(client)
        left = [secret for secret in found if not secret.is_legacy or LEGACY_TOKEN in secret.finalizers]
        if left:
            error = NotReady(
                f"{len(left)} pull secrets are left, first {left[0].key}: do the pods of the namespace "
                f"{PULL_SECRETS_NAMESPACE} run? `kubectl -n {PULL_SECRETS_NAMESPACE} get pods` shows them"
            )
            raise PollAgain("waiting for the controllers to remove the pull secrets", error)

    await poll_until(look, PollOptions(patience, pause=PAUSE), progress)
    return True
