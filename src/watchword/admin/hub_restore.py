"""Puts the objects of a hub back, and says beforehand what that changes."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from msgspec import Struct

from watchword.accounts.grants import GRANTS
from watchword.accounts.hub.definition import manifests as account_manifests
from watchword.admin.apply import list_if_served, names_of
from watchword.admin.backup_archive import Backup, Subject
from watchword.admin.errors import InvalidInput, NotReady, OperationRefused
from watchword.admin.hub_backup import OBJECTS_FILE, SAVED_KINDS, clean
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE
from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, annotations_of, is_deleting, mapping_at
from watchword.api.names import HUB_ANNOTATIONS
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    SECRETS,
)
from watchword.api.sensitive import HiddenFields
from watchword.discovery.token_secret import TokenRecord, read_token_secret
from watchword.health.states import is_accepted
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists
from watchword.registration.hub import installation
from watchword.runtime.manifests import establish_crds

FIELD_MANAGER = "watchword-restore"


class HubRestore(HiddenFields, frozen=True):
    """A restore that was checked and is not begun; everything that changes is in one of these lists."""

    hidden = ("created", "changed")

    created: tuple[Manifest, ...]  # not there: deleted since the backup, or another cluster
    changed: tuple[Manifest, ...]  # there, and different
    skipped: tuple[str, ...]  # with the reason
    on_existing_hub: bool

    @property
    def returning(self) -> list[str]:
        """What was deleted since the backup, as far as the cluster was this hub then."""
        return names_of(self.created) if self.on_existing_hub else []


class HubRestorer(Struct, frozen=True):
    """Restores objects on the cluster behind a client; what was denied or revoked since stays so, unless asked."""

    client: Client
    undo_revocations: bool = False

    async def plan(self, backup: Backup, *, replace: bool, now: datetime) -> HubRestore:
        """Compare the backup with the cluster; `OperationRefused` for a cluster that is a hub, unless `replace`."""
        rows = read_objects(backup)
        is_hub = any([await list_if_served(self.client, kind) for kind in (MANAGED_CLUSTERS, CLUSTER_MANAGERS)])
        if is_hub and not replace:
            raise OperationRefused(
                "this cluster is a hub already: choose another with --kubeconfig or --context, or give --replace, "
                "which puts what the backup holds over what is there"
            )
        created, changed, skipped = list[Manifest](), list[Manifest](), list[str]()
        for kind, saved in rows:
            present = await self.client.find(kind, ObjectKey.of(saved))
            if kind is NAMESPACES and present is not None and is_deleting(present):
                name = saved["metadata"]["name"]
                raise NotReady(f"the namespace {name} is being deleted: run the command again once it is gone")
            objection, wanted = "the token has expired" if _is_expired_token(kind, saved, now) else "", saved
            if not self.undo_revocations:
                objection = objection or choose_revocation(kind, saved, present, on_existing_hub=is_hub)
                wanted = without_revoked(kind, saved, present) if is_hub else saved
            denied = kind is MANAGED_CLUSTERS and present is not None and is_accepted(saved) != is_accepted(wanted)
            note = "denied since the backup, and stays denied" if denied else objection
            if note:
                skipped.append(f"{names_of([(kind, saved)])[0]}: {note}")
            if objection:
                continue
            if present is None:
                created.append((kind, wanted))
            elif kind is not NAMESPACES and clean(present, kind) != wanted:
                changed.append((kind, wanted))
        return HubRestore(tuple(created), tuple(changed), tuple(skipped), is_hub)

    async def carry_out(self, plan: HubRestore) -> None:
        """Declare the kinds, then create and change the objects; may be repeated after a failure."""
        await establish_crds(self.client, _definitions(plan), manager=installation.FIELD_MANAGER)
        for kind, obj in plan.created:
            try:
                await self.client.create(kind, obj)
            except AlreadyExists:  # made by the hub's controllers meanwhile, or by a restore that was interrupted
                await self.client.apply(kind, obj, manager=FIELD_MANAGER, force=True)
        for kind, obj in plan.changed:
            await self.client.apply(kind, obj, manager=FIELD_MANAGER, force=True)


def _is_expired_token(kind: Resource, saved: Object, now: datetime) -> bool:
    if kind is not SECRETS or saved["metadata"].get("namespace") != TOKEN_SECRET_NAMESPACE:
        return False
    record = read_token_secret(saved)
    return isinstance(record, TokenRecord) and record.is_expired(now)


def choose_revocation(kind: Resource, saved: Object, present: Object | None, *, on_existing_hub: bool) -> str:
    """Return why an object is left as it is: its deletion or change ended access, or may have."""
    if kind is SECRETS and saved["metadata"].get("namespace") == TOKEN_SECRET_NAMESPACE:
        if present is not None:
            return "" if clean(present, kind) == saved else "changed since the backup, and stays so"
        where = "deleted since the backup" if on_existing_hub else "it may have been revoked since the backup"
        return f"{where}: create another token, or give --undo-revocations"
    if (kind in ACCOUNT_KINDS or kind is MANAGED_CLUSTER_ADDONS) and present is None and on_existing_hub:
        return "deleted since the backup: create it again, or give --undo-revocations"
    return ""


def without_revoked(kind: Resource, saved: Object, present: Object | None) -> Object:
    """Return what is restored of an object on the hub from which it was saved: no access that was taken since."""
    if kind is CONFIG_MAPS:
        return intersect_grants(saved, present)
    return restore_cluster(saved, present) if kind is MANAGED_CLUSTERS else saved


def restore_cluster(saved: Object, present: Object | None) -> Object:
    """Return the cluster to restore: not accepted if denied or deleted since; its present key stays on record."""
    if present is not None:
        saved = _with_hub_annotations(saved, present)
    if mapping_at(present, "spec").get("hubAcceptsClient") is True:
        return saved
    spec = mapping_at(saved, "spec")
    return {**saved, "spec": {**spec, "hubAcceptsClient": False}} if spec.get("hubAcceptsClient") else saved


def _with_hub_annotations(saved: Object, present: Object) -> Object:
    """Return a cluster of a backup with what the hub has noted since: another key may have the name now."""
    others = {name: text for name, text in annotations_of(saved).items() if name not in HUB_ANNOTATIONS}
    noted = {name: text for name, text in annotations_of(present).items() if name in HUB_ANNOTATIONS}
    if {**others, **noted} == annotations_of(saved):
        return saved
    return {**saved, "metadata": {**saved["metadata"], "annotations": {**others, **noted}}}


def intersect_grants(saved: Object, present: Object | None) -> Object:
    """Return the rights of accounts that both records have; other ConfigMaps are restored as they were."""
    if ObjectKey.of(saved) != GRANTS:
        return saved
    today = mapping_at(present, "data")
    kept = {name: text for name, text in mapping_at(saved, "data").items() if today.get(name) == text}
    return {**saved, "data": kept}


def read_objects(backup: Backup) -> list[Manifest]:
    """Return the objects in the order in which they can be created; `InvalidInput` when they are not a hub's."""
    if backup.header.subject is not Subject.HUB:
        raise InvalidInput(
            "this is the backup of a data directory: restore it with `watchword restore FILE --data-dir DIR`"
        )
    kinds = {(kind.api_version, kind.kind): kind for kind in SAVED_KINDS}
    try:
        saved: Sequence[dict[str, Any]] = orjson.loads(backup.files[OBJECTS_FILE])
        rows = [(kinds[obj["apiVersion"], obj["kind"]], obj) for obj in saved]
    except (KeyError, TypeError, orjson.JSONDecodeError) as cause:
        raise InvalidInput("the backup holds objects that no hub has: use another backup") from cause
    return sorted(rows, key=lambda row: SAVED_KINDS.index(row[0]))


def _definitions(plan: HubRestore) -> list[Object]:
    definitions = list(HUB_CRDS)
    if any(kind in ACCOUNT_KINDS for kind, _ in (*plan.created, *plan.changed)):
        definitions += [obj for kind, obj in account_manifests() if kind is CUSTOM_RESOURCE_DEFINITIONS]
    return definitions
