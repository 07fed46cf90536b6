"""Plans the revocation of an add-on on one cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from watchword.addons.catalog import AddonCatalog
from watchword.addons.driver import HasSubjectObject, RequestsAddonCertificate
from watchword.addons.hub.grants import is_made_for
from watchword.admin.addons import is_reinstalled_by_strategy
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke.revocation import (
    AbsenceProbe,
    AccessProbe,
    Revocation,
    RevocationContext,
    RevocationTarget,
    parse_key,
)
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import Label, service_account_user
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTER_ADDONS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
from watchword.kube.access_reviews import ResourceAccess, UserIdentity
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound

ANY = "*"
EXAMPLES = {"verbs": "get", "resources": "configmaps", "apiGroups": ""}  # what stands for a rule's `*`


async def find_access_probes(client: Client, bindings: Sequence[Object]) -> tuple[AccessProbe, ...]:
    found: dict[UserIdentity, list[ResourceAccess]] = {}
    for binding in bindings:
        access = choose_access(await _rules(client, binding), ObjectKey.of(binding).namespace)
        for subject in binding.get("subjects") or ():
            if access is not None:
                found.setdefault(subject_identity(subject), []).append(access)
    return tuple(
        AccessProbe(who.username or who.groups[0], client, who, tuple(accesses)) for who, accesses in found.items()
    )


async def _rules(client: Client, binding: Object) -> list[Object]:
    reference = binding["roleRef"]
    shared = reference["kind"] == CLUSTER_ROLES.kind
    namespace = "" if shared else ObjectKey.of(binding).namespace
    role = await client.find(CLUSTER_ROLES if shared else ROLES, ObjectKey(namespace, reference["name"]))
    return (role or {}).get("rules") or []


def choose_access(rules: Iterable[Object], namespace: str) -> ResourceAccess | None:
    """Return an access that the rules allow in a namespace; None when they allow none."""
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


FORM = "CLUSTER/NAME"


class AddonRights(Struct, frozen=True):
    """The rights of an add-on on the hub, removed at once: a deleted add-on keeps them until its hooks have run."""

    client: Client
    addon: ObjectKey
    account: Object | None  # the ServiceAccount whose tokens it has, None when it has none

    async def bindings(self) -> list[Object]:
        labels = f"{Label.ADDON_NAME}={self.addon.name},{Label.ADDON_CLUSTER}={self.addon.namespace}"
        found = await self.client.list(ROLE_BINDINGS, labels=labels)
        return [binding for binding in found.items if is_made_for(self.addon)(binding)]

    async def remove(self) -> None:
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


async def _find_account(client: Client, addon: Addon, catalog: AddonCatalog) -> Object | None:
    """Return the ServiceAccount of the add-on's subject, when that is one and was made for this add-on."""
    driver, declared = catalog.driver_of(addon), addon.kube_client
    if driver is None or declared is None or not isinstance(driver, HasSubjectObject):
        return None
    needed = driver.subject_object
    if needed.resource is not SERVICE_ACCOUNTS or not driver.subjects.is_own(
        addon.cluster, addon.name, declared.subject
    ):
        return None
    subject = driver.subjects.rbac_subject(addon.cluster, addon.name, declared.subject)
    account = await client.find(SERVICE_ACCOUNTS, ObjectKey(subject["namespace"], subject["name"]))
    return account if account is not None and addon.key in needed.addons_of(account) else None


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


def _describe_consequence(addon: Addon, catalog: AddonCatalog) -> str:
    said = []
    if is_reinstalled_by_strategy(addon.object):
        said.append("an install strategy enables the add-on again: take the cluster out of its placement first")
    if isinstance(catalog.driver_of(addon), RequestsAddonCertificate):
        said.append("a certificate of the add-on has rights again if the add-on is enabled before it expires")
    return "; ".join(said)
