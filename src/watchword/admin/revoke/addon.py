"""Plans the revocation of an add-on on one cluster."""

import contextlib
from collections.abc import Iterable, Sequence

from msgspec import Struct

from watchword.addons.catalog import AddonCatalog
from watchword.addons.hub.grants import is_made_for
from watchword.admin.addons import is_reinstalled_by_strategy
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke import revocation
from watchword.api.meta import Object, ObjectKey, Resource, is_deleting, uid_of
from watchword.api.names import Label, service_account_user
from watchword.api.resources import CLUSTER_ROLES, MANAGED_CLUSTER_ADDONS, ROLE_BINDINGS, ROLES, SERVICE_ACCOUNTS
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
    accounts: Sequence[Object]  # the ServiceAccounts whose tokens it has

    async def bindings(self) -> list[Object]:
        labels = f"{Label.ADDON_NAME}={self.addon.name},{Label.ADDON_CLUSTER}={self.addon.namespace}"
        found = await self.client.list(ROLE_BINDINGS, labels=labels)
        return [binding for binding in found.items if is_made_for(self.addon)(binding)]

    async def remove(self) -> None:
        rows = [(ROLE_BINDINGS, binding) for binding in await self.bindings()]
        for resource, obj in [*rows, *((SERVICE_ACCOUNTS, account) for account in self.accounts)]:
            with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
                await self.client.delete(resource, ObjectKey.of(obj), uid=uid_of(obj))


async def plan_addon(context: revocation.RevocationContext, name: str) -> revocation.Revocation:
    """Plan to disable an add-on on a cluster and to remove its rights without waiting for its hooks.

    Nothing that the cluster wrote is read: what an agent wrote must not keep it from losing its rights.
    """
    client, key = context.client, revocation.parse_key(name, FORM)
    found = await client.find(MANAGED_CLUSTER_ADDONS, key)
    if found is None:
        raise NotFoundOnHub(f"add-on {key.name} is not enabled on {key.namespace}: `watchword addon list` lists all")
    accounts = await _find_accounts(client, key, context.catalog)
    rights = AddonRights(client, key, accounts)

    async def act() -> bool:
        with contextlib.suppress(NotFound, Conflict):  # another writer was faster
            await client.delete(MANAGED_CLUSTER_ADDONS, key, uid=uid_of(found))
        await rights.remove()
        return not is_deleting(found)

    bindings = await rights.bindings()
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
        repeat=rights.remove,
    )


async def _find_accounts(client: Client, key: ObjectKey, catalog: AddonCatalog) -> list[Object]:
    """Return the ServiceAccounts that the hub made for the add-on."""
    found: list[Object] = []
    for needed in catalog.subject_objects:
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
