"""Takes a cluster out of its hub, from the cluster's own side, also when the hub cannot be reached."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta

from msgspec import Struct, field

from watchword.admin.accept import validate_denied
from watchword.admin.apply import list_if_served, names_of
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.admin.workloads import unneeded_operator_objects
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, finalizers_of, labels_of, uid_of
from watchword.api.names import (
    AGENT_NAMESPACE,
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    Annotation,
    Finalizer,
    Label,
)
from watchword.api.resources import (
    APPLIED_MANIFEST_WORKS,
    DEPLOYMENTS,
    KLUSTERLETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.sensitive import HiddenFields
from watchword.api.time import rfc3339_micro
from watchword.credentials.credential_secret import AGENT_NAME, CLUSTER_NAME, decode_data
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.discovery.discover import Progress, ignore_progress
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, NotFound, Unauthorized
from watchword.kube.exec_plugin import ExecPlugin
from watchword.kube.kubeconfig import UserEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.request_sender import RetryPolicy
from watchword.operator.klusterlet import agent_deployment, agent_manifests, namespace_of
from watchword.pki.errors import PkiError
from watchword.registration.agent.membership import withdraw_acceptance
from watchword.registration.catalog import CATALOG, make_connector
from watchword.registration.driver import ConnectorContext, user_with_secret_data
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import remove_finalizer

HUB_PATIENCE = timedelta(seconds=25)  # for the hub to remove the rights, once notified
OPERATOR_PATIENCE = timedelta(seconds=25)  # for an operator to clean up, if there is one
HUB_RETRY = RetryPolicy(attempts=3, attempt_timeout=5.0, deadline=12.0)
PLUGIN_RETRY = RetryPolicy(attempts=2, attempt_timeout=30.0, deadline=40.0)  # the plugin runs within the first attempt
AGENT_PATIENCE = timedelta(seconds=20)  # for the agent to notify the hub
CREDENTIALS = (HUB_KUBECONFIG_SECRET, BOOTSTRAP_KUBECONFIG_SECRET)


class Leftover(Struct, frozen=True):
    """Something that is left, and the command that finishes it."""

    what: str
    command: str


class ExistingMembership(HiddenFields, frozen=True):
    """What there is of a membership on this cluster."""

    hidden = ("data", "other_secrets")

    cluster: str
    namespace: str
    klusterlet: Object | None
    data: SecretData  # of the credential for the hub
    other_secrets: tuple[Object, ...] = ()  # Secrets of an agent without a Klusterlet

    @property
    def addons(self) -> list[Object]:
        """The credentials of add-ons, which are valid on the hub until they expire."""
        rows = [(obj, labels_of(obj)) for obj in self.other_secrets]
        return [obj for obj, has in rows if Label.ADDON_NAME in has and has.get(Label.CLUSTER_NAME) == self.cluster]

    @property
    def is_only_agent(self) -> bool:
        keys = [ObjectKey.of(obj) for obj in self.other_secrets if AGENT_NAME in decode_data(obj)]
        return not any(key.namespace == self.namespace and key.name != HUB_KUBECONFIG_SECRET for key in keys)

    @property
    def has_credential(self) -> bool:
        user = self._user()
        held = user is not None and bool(user.certificate_data or user.token or user.plugin)
        return bool(CATALOG.holder_of(self.data)) or held

    @property
    def plugin(self) -> ExecPlugin | None:
        """The program that gives the credential, such as `aws`; None when the Secret contains the credential."""
        user = self._user()
        return None if user is None else user.plugin

    @property
    def retry(self) -> RetryPolicy:
        """How long the hub is asked: a plugin that gives the credential needs its own time."""
        return HUB_RETRY if self.plugin is None else PLUGIN_RETRY

    def _user(self) -> UserEntry | None:
        try:
            return user_with_secret_data(parse_kubeconfig(self.data.get(KUBECONFIG, b"")).choose().user, self.data)
        except KubeError:
            return None


class UnjoinResult(Struct, frozen=True):
    """What was done and what is left."""

    hub_notified: bool
    removed: tuple[str, ...]
    left: tuple[Leftover, ...]


async def find_membership(
    client: Client, klusterlet: str, cluster: str, namespace: str = ""
) -> ExistingMembership | None:
    """Return the membership, None when there is none; raise `OperationRefused` when it has another cluster name."""
    found = await client.find(KLUSTERLETS, ObjectKey.cluster(klusterlet))
    place = namespace or (namespace_of(found) if found is not None else AGENT_NAMESPACE)
    data = decode_data(await client.find(SECRETS, ObjectKey(place, HUB_KUBECONFIG_SECRET)))
    if found is None and not data:
        return None
    declared = str(((found or {}).get("spec") or {}).get("clusterName") or "")
    name = declared or data.get(CLUSTER_NAME, b"").decode(errors="replace")
    if cluster and name != cluster:
        raise OperationRefused(
            f"this cluster joined as {name or klusterlet}, not as {cluster}: give --cluster-name {name}"
        )
    return ExistingMembership(
        name, place, found, data, () if found is not None else await _list_other_secrets(client, place)
    )


async def _list_other_secrets(client: Client, namespace: str) -> tuple[Object, ...]:
    """Return what an agent without a Klusterlet may have left, and what others keep in its namespace."""
    addons = await client.list(SECRETS, labels=f"{Label.CLUSTER_NAME},{Label.ADDON_NAME}")
    return (*addons.items, *(await client.list(SECRETS, namespace=namespace)).items)


class Unjoiner(Struct, frozen=True):
    """Leaves a hub, with bounded waits: notifies it first, then removes the membership's objects here."""

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)
    dry_run: bool = False
    purge_operator: bool = True  # with the last that it deployed

    async def run(self, membership: ExistingMembership) -> UnjoinResult:
        """Return what was done; whatever happens to the hub, this side is cleaned up."""
        problem = "" if self.dry_run else await self._notify_hub(membership)
        removed = await self._remove(choose_removal(membership))
        if self.purge_operator:
            going = membership.klusterlet["metadata"]["name"] if membership.klusterlet is not None else ""
            unneeded = await unneeded_operator_objects(self.client, membership.namespace, going=going)
            removed += await self._remove(unneeded)
        finish = f"watchword deny {membership.cluster}   # on the hub, if it is still there"
        left = [Leftover(problem, finish)] if problem else []
        return UnjoinResult(not problem, tuple(removed), (*left, *await self._work_left()))

    async def _notify_hub(self, membership: ExistingMembership) -> str:
        """Withdraw the acceptance with the cluster's own credential; return why that is not finished, or nothing."""
        if not membership.has_credential:
            return "the hub was not notified: this cluster has no credential for it"
        self.progress(f"notifying the hub that {membership.cluster} leaves")
        if membership.plugin is not None and await self._ask_agent(membership):
            return ""  # the plugin has the identity of the agent's pods, which a person's shell seldom has
        problem = await self._notify_directly(membership)
        if problem and membership.plugin is None and await self._is_agent_deployed(membership):
            return "" if await self._ask_agent(membership) else problem
        return problem

    async def _is_agent_deployed(self, membership: ExistingMembership) -> bool:
        if membership.klusterlet is None:
            return False
        key = ObjectKey.of(agent_deployment(membership.klusterlet)[1])
        return await self.client.find(DEPLOYMENTS, key) is not None

    async def _ask_agent(self, membership: ExistingMembership) -> bool:
        """Let the agent take the cluster out, which has a way to the hub that this machine may lack."""
        key, asked = ObjectKey(membership.namespace, HUB_KUBECONFIG_SECRET), rfc3339_micro(self.clock.now())
        self.progress("asking the agent of this cluster to notify the hub")
        request = {"metadata": {"annotations": {Annotation.LEAVE_REQUEST: asked}}}

        def describe(secret: Object | None) -> str:
            is_done = secret is None or annotations_of(secret).get(Annotation.LEFT_ON) == asked
            return "" if is_done else "the agent has not notified the hub yet"

        try:
            await self.client.patch(SECRETS, key, request)
            await ObjectWaiter(self.client, AGENT_PATIENCE, self.progress).until(SECRETS, key, describe, advice="")
        except (NotReady, NotFound):
            return False
        return True

    async def _notify_directly(self, membership: ExistingMembership) -> str:
        try:
            context = ConnectorContext(cluster=membership.cluster, bootstrap=None)
            connector = make_connector(CATALOG.find(CATALOG.holder_of(membership.data)), context)
            async with Client(connector.own(membership.data), retry=membership.retry) as hub:
                if await withdraw_acceptance(hub, membership.cluster, self.clock):
                    waiter = ObjectWaiter(hub, HUB_PATIENCE, self.progress, ends_when_refused=True)
                    key = ObjectKey.cluster(membership.cluster)
                    with suppress(Unauthorized, Forbidden):  # a driver's server refuses this cluster from then on
                        await waiter.until(MANAGED_CLUSTERS, key, validate_denied, advice="")
        except NotReady:
            return "the hub was notified and has not removed the rights yet: are its controllers running?"
        except (Unauthorized, Forbidden) as refusal:
            return f"the hub refuses this cluster's credential ({refusal})"
        except (KubeError, PkiError) as error:
            return f"the hub was not notified: {error}"
        return ""

    async def _remove(self, rows: Sequence[Manifest]) -> list[str]:
        if self.dry_run:
            there = [row for row in rows if await self.client.find(row[0], ObjectKey.of(row[1])) is not None]
            return names_of(there)
        removed: list[str] = []
        for resource, obj in rows:
            try:
                await self.client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))
            except NotFound:
                continue
            removed += names_of([(resource, obj)])
            if resource is KLUSTERLETS:
                # Let an operator clean up behind a Klusterlet; where none runs, its finalizer is ours to take off.
                key = ObjectKey.of(obj)
                waiter = ObjectWaiter(self.client, OPERATOR_PATIENCE if finalizers_of(obj) else timedelta(seconds=5))
                try:
                    await waiter.until(KLUSTERLETS, key, lambda found: "still there" if found else "", advice="")
                except NotReady:
                    found = await self.client.find(KLUSTERLETS, key)
                    if found is not None and uid_of(found) == uid_of(obj):
                        await remove_finalizer(self.client, KLUSTERLETS, found, Finalizer.KLUSTERLET)
        return removed

    async def _work_left(self) -> Sequence[Leftover]:
        works = await list_if_served(self.client, APPLIED_MANIFEST_WORKS)
        if not works:
            return ()
        names = ", ".join(work["metadata"]["name"] for work in works[:3]) + (", …" if len(works) > 3 else "")
        what = f"what the hub deployed here keeps running: {len(works)} AppliedManifestWork ({names})"
        return (Leftover(what, "kubectl delete appliedmanifestworks --all   # removes what they deployed, too"),)


def choose_removal(membership: ExistingMembership) -> list[Manifest]:
    """Return what is removed, in order: the Klusterlet, the agent and its rights, the namespaces, the credentials.

    An agent that ends slowly could write its credential again; in a namespace that is being deleted, it cannot.
    """
    own = [] if membership.klusterlet is None else [(KLUSTERLETS, membership.klusterlet)]
    rendered = [] if membership.klusterlet is None else list(reversed(agent_manifests(membership.klusterlet)))
    namespaces = [row for row in rendered if row[0] is NAMESPACES]
    if membership.klusterlet is None and membership.is_only_agent:
        namespaces = [(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(membership.namespace)))]
    return [
        *own,
        *(row for row in rendered if row[0] is not NAMESPACES),
        *((SECRETS, obj) for obj in membership.addons),
        *namespaces,
        *((SECRETS, SECRETS.manifest(ObjectKey(membership.namespace, name))) for name in CREDENTIALS),
    ]
