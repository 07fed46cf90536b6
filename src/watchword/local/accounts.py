"""A managed service account on a fleet of this machine: one identity on the first clusters, its tokens used."""

from __future__ import annotations

from contextlib import suppress

from watchword.accounts.clients import ClusterClients
from watchword.admin.accounts_addon import AccountsAddonAdmin
from watchword.api.accounts import ADDON_NAME
from watchword.api.meta import ObjectKey
from watchword.api.resources import (
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_SERVICE_ACCOUNTS,
    NAMESPACES,
)
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import AlreadyExists
from watchword.local.control_plane import LocalControlPlane
from watchword.local.fleet import LocalFleet

ACCOUNT = ObjectKey("demo", "robot")
CLUSTER_SET = "global"
ENABLED_ON = 2  # the first clusters: one for each driver


async def start_accounts(fleet: LocalFleet) -> list[LocalControlPlane]:
    """Have the hub serve accounts, enable the add-on on the first clusters, declare one account; return them."""
    members = fleet.clusters[:ENABLED_ON]
    client = fleet.hub.client
    await AccountsAddonAdmin(client).install()
    binding = MANAGED_CLUSTER_SET_BINDINGS.manifest(
        ObjectKey(ACCOUNT.namespace, CLUSTER_SET), spec={"clusterSet": CLUSTER_SET}
    )
    addons = [MANAGED_CLUSTER_ADDONS.manifest(ObjectKey(member.name, ADDON_NAME), spec={}) for member in members]
    for resource, manifest in (
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(ACCOUNT.namespace))),
        (MANAGED_CLUSTER_SET_BINDINGS, binding),
        *((MANAGED_CLUSTER_ADDONS, addon) for addon in addons),
        (MANAGED_SERVICE_ACCOUNTS, MANAGED_SERVICE_ACCOUNTS.manifest(ACCOUNT, spec={})),
    ):
        with suppress(AlreadyExists):  # a fleet that was up before
            await client.create(resource, manifest)
    return members


async def use_account(fleet: LocalFleet, members: list[LocalControlPlane]) -> list[str]:
    """Ask each cluster who the holder of the account's token is, and return what they answer."""
    async with ClusterClients(fleet.hub.client, ACCOUNT.name, namespace=ACCOUNT.namespace) as clusters:
        answers = [await who_am_i(await clusters.client(member.name, within=60)) for member in members]
    return [answer.username for answer in answers]
