"""The kinds of credentials that can be revoked; a new kind is a planner and a row here."""

import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG
from watchword.addons.hub.grants import is_made_for
from watchword.admin.accept import HubAdmin, deny
from watchword.admin.addons import is_reinstalled_by_strategy
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke import pull_secret, revocation
from watchword.admin.revoke.pull_secret import plan_pull_secret
from watchword.admin.service_accounts import ServiceAccountAdmin, connect_with
from watchword.api.accounts import resource_of
from watchword.api.bootstrap import token_secret_key
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.names import Label, registration_binding, service_account_user, work_binding
from watchword.api.resources import (
    CLUSTER_ROLES,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.token_secret import TokenRecord, TokenStore, TokenUsage, read_token_secret
from watchword.discovery.tokens import parse_token_id
from watchword.kube.access_reviews import ResourceAccess, UserIdentity
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound

ANY = "*"
EXAMPLES = {"verbs": "get", "resources": "configmaps", "apiGroups": ""}  # what stands for a rule's `*`


async def find_access_probes(client: Client, bindings: Sequence[Object]) -> tuple[revocation.AccessProbe, ...]:
    found: dict[UserIdentity, list[ResourceAccess]] = {}
    for binding in bindings:
        access = choose_access(await _rules(client, binding), ObjectKey.of(binding).namespace)
        for subject in binding.get("subjects") or ():
            if access is not None:
                found.setdefault(subject_identity(subject), []).append(access)
    return tuple(
        revocation.AccessProbe(who.username or who.groups[0], client, who, tuple(accesses))
        for who, accesses in found.items()
    )


async def _rules(client: Client, binding: Object) -> list[Object]:
    reference = binding["roleRef"]
    shared = reference["kind"] == CLUSTER_ROLES.kind
    namespace = "" if shared else ObjectKey.of(binding).namespace
    role = await client.find(CLUSTER_ROLES if shared else ROLES, ObjectKey(namespace, reference["name"]))
    return (role or {}).get("rules") or []


def choose_access(rules: Iterable[Object], namespace: str) -> ResourceAccess | None:
    for rule in rules:
        verb, resource = _first(rule, "verbs"), _first(rule, "resources")
        group = _first(rule, "apiGroups")
        if verb is None or resource is None or group is None:
            continue
        plural, _, subresource = resource.partition("/")
        name = next(iter(rule.get("resourceNames") or ()), "")
        return ResourceAccess(verb, Resource(group, "v1", plural, ""), ObjectKey(namespace, name), subresource)
    return None


def _first(rule: Object, field: str) -> str | None:
    values = rule.get(field) or ()
    first = next(iter(values), None)
    return EXAMPLES[field] if first == ANY else first


def subject_identity(subject: Object) -> UserIdentity:
    """Return the identity that a binding's subject stands for, without groups that many identities share."""
    name = str(subject["name"])
    match subject["kind"]:
        case "Group":
            return UserIdentity("", groups=(name,))
        case "ServiceAccount":
            return UserIdentity(service_account_user(str(subject.get("namespace") or ""), name))
        case _:
            return UserIdentity(name)


ADDON_FORM = "CLUSTER/NAME"


async def _addon_bindings(client: Client, addon: ObjectKey) -> list[Object]:
    labels = f"{Label.ADDON_NAME}={addon.name},{Label.ADDON_CLUSTER}={addon.namespace}"
    return [
        binding for binding in (await client.list(ROLE_BINDINGS, labels=labels)).items if is_made_for(addon)(binding)
    ]


async def plan_addon(admin: HubAdmin, name: str) -> revocation.Revocation:
    """Plan to disable an add-on on a cluster and to remove its rights without waiting for its hooks.

    Nothing that the cluster wrote is read: what an agent wrote must not keep it from losing its rights.
    """
    client, key = admin.client, revocation.parse_key(name, ADDON_FORM)
    found = await client.find(MANAGED_CLUSTER_ADDONS, key)
    if found is None:
        raise NotFoundOnHub(f"add-on {key.name} is not enabled on {key.namespace}: `watchword addon list` lists all")
    accounts = await _find_accounts(client, key)

    async def remove_rights() -> None:
        """Remove them at once: a deleted add-on keeps them until its hooks have run."""
        rows = [(ROLE_BINDINGS, binding) for binding in await _addon_bindings(client, key)]
        for resource, obj in [*rows, *((SERVICE_ACCOUNTS, account) for account in accounts)]:
            with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                await client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))

    async def act() -> bool:
        with contextlib.suppress(NotFound, Conflict):  # another writer was faster
            await client.delete(MANAGED_CLUSTER_ADDONS, key, uid=uid_of(found))
        await remove_rights()
        return not is_deleting(found)

    bindings = await _addon_bindings(client, key)
    places = {ObjectKey.of(account): uid_of(account) for account in accounts}
    absent = [
        revocation.AbsenceProbe(f"tokens of ServiceAccount {place}", client, SERVICE_ACCOUNTS, place, uid)
        for place, uid in places.items()
    ]
    return revocation.Revocation(
        target=revocation.RevocationTarget("addon", str(key)),
        object=found,
        actions=(
            f"delete ManagedClusterAddOn {key}",
            *(f"delete RoleBinding {ObjectKey.of(binding)}" for binding in bindings),
            *(f"delete ServiceAccount {place}, and so its tokens" for place in places),
        ),
        consequence=_describe_consequence(found, by_token=bool(accounts)),
        act=act,
        probes=(*await find_access_probes(client, bindings), *absent),
        repeat=remove_rights,
    )


async def _find_accounts(client: Client, key: ObjectKey) -> list[Object]:
    found: list[Object] = []
    for needed in ADDON_CATALOG.subject_objects:
        if needed.resource is SERVICE_ACCOUNTS:
            listed = await client.list(SERVICE_ACCOUNTS, namespace=key.namespace, labels=needed.selector(key.name))
            found += [account for account in listed.items if key in needed.addons_of(account)]
    return found


def _describe_consequence(addon: Object, *, by_token: bool) -> str:
    said = []
    if is_reinstalled_by_strategy(addon):
        said.append("an install strategy enables the add-on again: take the cluster out of its placement first")
    if not by_token:
        said.append("a certificate of the add-on has rights again if the add-on is enabled before it expires")
    return "; ".join(said)


CLUSTER_CONSEQUENCE = (
    "the ManagedCluster stays; its credential has no rights until it is accepted again. To accept another cluster "
    "under this name, delete the ManagedCluster first: then the old certificate gets no rights"
)


async def plan_cluster(admin: HubAdmin, name: str) -> revocation.Revocation:
    """Plan to deny a cluster; whichever driver it registers by, its rights are bound by the hub."""
    client = admin.client
    found = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    if found is None:
        raise NotFoundOnHub(f"there is no cluster {name}: `watchword clusters` lists all")

    async def act() -> bool:
        result = await deny(admin, name)
        return result.changed or bool(result.requests)

    return revocation.Revocation(
        target=revocation.RevocationTarget("cluster", name),
        object=found,
        actions=(
            f"deny ManagedCluster {name}: the hub removes the rights of its agent and of its add-ons",
            f"deny the certificate requests of {name} that are pending",
        ),
        consequence=CLUSTER_CONSEQUENCE,
        act=act,
        probes=await find_access_probes(client, await _bindings(client, name)),
    )


async def _bindings(client: Client, cluster: str) -> list[Object]:
    names = (registration_binding(cluster), work_binding(cluster))
    found = [await client.find(ROLE_BINDINGS, ObjectKey(cluster, name)) for name in names]
    return [binding for binding in found if binding is not None]


JOIN_CONSEQUENCE = "clusters that joined by it keep their own credentials: `watchword clusters` lists them"


async def plan_join_token(admin: HubAdmin, name: str) -> revocation.Revocation:
    client, token_id = admin.client, parse_token_id(name)
    key = token_secret_key(token_id)
    secret = await client.find(SECRETS, key)
    if secret is None:
        raise NotFoundOnHub(f"there is no token with id {token_id}: `watchword token list` shows all")

    async def act() -> bool:
        try:
            await TokenStore(client).delete(token_id)
        except BootstrapTokenRefused as refusal:
            if refusal.reason is not DiscoveryReason.TOKEN_NOT_FOUND:
                raise
            return False
        return True

    return revocation.Revocation(
        target=revocation.RevocationTarget("token", token_id),
        object=({name: value for name, value in secret.items() if name != "data"}),
        actions=(f"delete Secret {key}",),
        consequence=JOIN_CONSEQUENCE,
        act=act,
        probes=(_probe_join_token(client, secret, token_id),),
    )


def _probe_join_token(client: Client, secret: Object, token_id: str) -> revocation.RefusalProbe:
    """Return a review of the token where it authenticates, else the absence of its Secret."""
    record, holder = read_token_secret(secret), f"token {token_id}"
    if isinstance(record, TokenRecord) and TokenUsage.AUTHENTICATION in record.usages:
        return revocation.TokenReviewProbe(holder, client, Sensitive(record.token.reveal()))
    return revocation.AbsenceProbe(holder, client, SECRETS, token_secret_key(token_id), uid_of(secret))


FORM = "NAMESPACE/NAME"


async def plan_service_account(admin: HubAdmin, name: str) -> revocation.Revocation:
    """Plan to delete an account: its tokens are revoked on every cluster that has it."""
    key, accounts = revocation.parse_key(name, FORM), ServiceAccountAdmin(admin.client)
    account = await accounts.get(key)
    clusters, tokens = await accounts.clusters(key), await accounts.tokens(key)

    async def act() -> bool:
        await accounts.delete(key)
        return not is_deleting(account)

    everywhere = revocation.AbsenceProbe(f"account {key}", admin.client, resource_of(account), key, uid_of(account))
    return revocation.Revocation(
        target=revocation.RevocationTarget("serviceaccount", str(key)),
        object=account,
        actions=(
            f"delete ManagedServiceAccount {key}",
            *(f"have the agent on {cluster} delete its ServiceAccount, and so its tokens" for cluster in clusters),
        ),
        act=act,
        probes=(
            everywhere,
            *(revocation.RequestProbe(f"token for {each.cluster}", partial(connect_with, each)) for each in tokens),
        ),
    )


Planner: TypeAlias = Callable[[HubAdmin, str], Awaitable[revocation.Revocation]]
"""Plans a revocation without changing anything; raises `AdminError` when the name stands for nothing."""


class RevocableKind(Struct, frozen=True):
    """One kind of credential: how it is named, and how it is revoked."""

    name: str
    form: str  # of a name on the command line
    summary: str
    plan: Planner


KINDS = (
    RevocableKind("cluster", "NAME", "Take the rights from clusters and from their add-ons.", plan_cluster),
    RevocableKind("addon", ADDON_FORM, "Disable add-ons and remove their rights at once.", plan_addon),
    RevocableKind(
        "serviceaccount",
        FORM,
        "Delete managed service accounts, and their tokens on every cluster.",
        plan_service_account,
    ),
    RevocableKind(
        "pull-secret",
        pull_secret.FORM,
        "Delete the image pull secrets of ServiceAccounts; new ones are issued.",
        plan_pull_secret,
    ),
    RevocableKind("token", "ID", "Delete bootstrap tokens, by id or whole.", plan_join_token),
)

PLANNERS = {kind.name: kind.plan for kind in KINDS}
