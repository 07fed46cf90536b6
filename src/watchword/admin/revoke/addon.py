"""Plans the revocation of an add-on on one cluster."""

from __future__ import annotations

import contextlib

from msgspec import Struct

from watchword.addons.grant_manifests import is_made_for
from watchword.admin.addons import is_reinstalled_by_strategy
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke.bound_access import find_access_probes
from watchword.admin.revoke.refusals import AbsenceProbe
from watchword.admin.revoke.revocation import Revocation, RevocationContext, RevocationTarget, parse_key
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, ROLE_BINDINGS, SERVICE_ACCOUNTS
from watchword.drivers.catalog import Catalog
from watchword.drivers.descriptor import AddonRegistration
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound

FORM = "CLUSTER/NAME"


class AddonRights(Struct, frozen=True):
    """The rights of an add-on on the hub, removed at once: a deleted add-on keeps them until its hooks have run."""

    client: Client
    addon: ObjectKey
    account: Object | None  # the ServiceAccount whose tokens it has, None when it has none

    async def bindings(self) -> list[Object]:
        """Return the RoleBindings that were made for the add-on."""
        labels = f"{Label.ADDON_NAME}={self.addon.name},{Label.ADDON_CLUSTER}={self.addon.namespace}"
        found = await self.client.list(ROLE_BINDINGS, labels=labels)
        return [binding for binding in found.items if is_made_for(self.addon)(binding)]

    async def remove(self) -> None:
        """Delete the bindings and the account."""
        for binding in await self.bindings():
            await self._delete(ROLE_BINDINGS, binding)
        if self.account is not None:
            await self._delete(SERVICE_ACCOUNTS, self.account)

    async def _delete(self, resource: Resource, obj: Object) -> None:
        with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
            await self.client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))


async def plan_addon(context: RevocationContext, name: str) -> Revocation:
    """Plan to disable an add-on on a cluster and to remove its rights without waiting for its hooks."""
    client, key = context.client, parse_key(name, FORM)
    found = await client.find(MANAGED_CLUSTER_ADDONS, key)
    if found is None:
        raise NotFoundOnHub(f"add-on {key.name} is not enabled on {key.namespace}: `watchword addon list` lists all")
    addon = Addon.read(found)
    rights = AddonRights(client, key, await _find_account(client, addon, context.catalog))

    async def act() -> bool:
        with contextlib.suppress(NotFound, Conflict):  # another writer was faster
            await client.delete(MANAGED_CLUSTER_ADDONS, key, uid=addon.uid)
        await rights.remove()
        return not addon.deleting

    bindings = await rights.bindings()
    return Revocation(
        target=RevocationTarget("addon", str(key)),
        object=found,
        actions=_describe_actions(key, bindings, rights.account),
        consequence=_describe_consequence(addon, context.catalog),
        act=act,
        probes=(*await find_access_probes(client, bindings), *_account_probes(client, rights.account)),
        repeat=rights.remove,
    )


async def _find_account(client: Client, addon: Addon, catalog: Catalog) -> Object | None:
    """Return the ServiceAccount of the add-on's subject, when that is one and was made for this add-on."""
    registration, declared = _registration(addon, catalog), addon.kube_client
    needed = registration.subject_object if registration is not None else None
    if registration is None or declared is None or needed is None or needed.resource is not SERVICE_ACCOUNTS:
        return None
    if not registration.is_own_subject(addon.cluster, addon.name, declared.subject):
        return None
    subject = registration.rbac_subject(addon.cluster, addon.name, declared.subject)
    account = await client.find(SERVICE_ACCOUNTS, ObjectKey(subject["namespace"], subject["name"]))
    return account if account is not None and addon.key in needed.addons_of(account) else None


def _registration(addon: Addon, catalog: Catalog) -> AddonRegistration | None:
    return catalog.addons.get(addon.driver or catalog.default)


def _account_probes(client: Client, account: Object | None) -> tuple[AbsenceProbe, ...]:
    if account is None:
        return ()
    key = ObjectKey.of(account)
    return (AbsenceProbe(f"tokens of ServiceAccount {key}", client, SERVICE_ACCOUNTS, key, uid_of(account)),)


def _describe_actions(key: ObjectKey, bindings: list[Object], account: Object | None) -> tuple[str, ...]:
    return (
        f"delete ManagedClusterAddOn {key}",
        *(f"delete RoleBinding {ObjectKey.of(binding)}" for binding in bindings),
        *((f"delete ServiceAccount {ObjectKey.of(account)}, and so its tokens",) if account is not None else ()),
    )


def _describe_consequence(addon: Addon, catalog: Catalog) -> str:
    registration = _registration(addon, catalog)
    said = []
    if is_reinstalled_by_strategy(addon.object):
        said.append("an install strategy enables the add-on again: take the cluster out of its placement first")
    if registration is not None and registration.by_certificate:
        said.append("a certificate of the add-on has rights again if the add-on is enabled before it expires")
    return "; ".join(said)
