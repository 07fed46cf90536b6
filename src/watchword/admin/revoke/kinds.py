"""The kinds of credentials that can be revoked; a new kind is a module and a row here."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from msgspec import Struct

from watchword.admin.accept import deny
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.hub_admin import HubAdmin
from watchword.admin.revoke import addon, pull_secret, revocation
from watchword.admin.revoke.addon import find_access_probes, plan_addon
from watchword.admin.revoke.pull_secret import plan_pull_secret
from watchword.admin.service_accounts import ServiceAccountAdmin, connect_with
from watchword.api.accounts import resource_of
from watchword.api.bootstrap import token_secret_key
from watchword.api.meta import Object, ObjectKey, is_deleting, uid_of
from watchword.api.names import registration_binding, work_binding
from watchword.api.resources import MANAGED_CLUSTERS, ROLE_BINDINGS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.token_secret import TokenRecord, TokenStore, TokenUsage, read_token_secret
from watchword.discovery.tokens import parse_token_id
from watchword.kube.client import Client

CLUSTER_CONSEQUENCE = (
    "the ManagedCluster stays; its credential has no rights until it is accepted again. To accept another cluster "
    "under this name, delete the ManagedCluster first: then the old certificate gets no rights"
)


async def plan_cluster(context: revocation.RevocationContext, name: str) -> revocation.Revocation:
    """Plan to deny a cluster; whichever driver it registers by, its rights are bound by the hub."""
    client = context.client
    found = await client.find(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    if found is None:
        raise NotFoundOnHub(f"there is no cluster {name}: `watchword clusters` lists all")
    admin = HubAdmin(client, context.clock)

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
    """Return the bindings that only an accepted cluster has."""
    names = (registration_binding(cluster), work_binding(cluster))
    found = [await client.find(ROLE_BINDINGS, ObjectKey(cluster, name)) for name in names]
    return [binding for binding in found if binding is not None]


JOIN_CONSEQUENCE = "clusters that joined by it keep their own credentials: `watchword clusters` lists them"


async def plan_join_token(context: revocation.RevocationContext, name: str) -> revocation.Revocation:
    client, token_id = context.client, parse_token_id(name)
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


async def plan_service_account(context: revocation.RevocationContext, name: str) -> revocation.Revocation:
    """Plan to delete an account: its tokens are revoked on every cluster that has it."""
    key, admin = revocation.parse_key(name, FORM), ServiceAccountAdmin(context.client)
    account = await admin.get(key)
    clusters, tokens = await admin.clusters(key), await admin.tokens(key)

    async def act() -> bool:
        await admin.delete(key)
        return not is_deleting(account)

    everywhere = revocation.AbsenceProbe(f"account {key}", context.client, resource_of(account), key, uid_of(account))
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


Planner: TypeAlias = Callable[[revocation.RevocationContext, str], Awaitable[revocation.Revocation]]
"""Plans a revocation without changing anything; raises `AdminError` when the name stands for nothing."""


class RevocableKind(Struct, frozen=True):
    """One kind of credential: how it is named, and how it is revoked."""

    name: str
    form: str  # of a name on the command line
    summary: str
    plan: Planner


KINDS = (
    RevocableKind("cluster", "NAME", "Take the rights from clusters and from their add-ons.", plan_cluster),
    RevocableKind("addon", addon.FORM, "Disable add-ons and remove their rights at once.", plan_addon),
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

_BY_NAME = {kind.name: kind for kind in KINDS}


async def plan_revocation(
    context: revocation.RevocationContext, target: revocation.RevocationTarget
) -> revocation.Revocation:
    """Plan the revocation of one credential; raises `AdminError` when there is none of that name."""
    return await _BY_NAME[target.kind].plan(context, target.name)
