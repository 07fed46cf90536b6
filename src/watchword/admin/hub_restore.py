"""Puts the objects of a hub back, and says beforehand what that changes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import orjson
from msgspec import Struct

from watchword.accounts.hub.definition import manifests as account_manifests
from watchword.admin.apply import list_if_served, names_of
from watchword.admin.backup_archive import Backup, Subject
from watchword.admin.errors import InvalidInput, NotReady, OperationRefused
from watchword.admin.hub_backup import OBJECTS_FILE, SAVED_KINDS, clean
from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.bootstrap import TOKEN_SECRET_NAMESPACE
from watchword.api.crds import HUB_CRDS
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, is_deleting
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CUSTOM_RESOURCE_DEFINITIONS,
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
    unchanged: int
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
        created, changed, skipped, unchanged = list[Manifest](), list[Manifest](), list[str](), 0
        for kind, saved in rows:
            present = await self.client.find(kind, ObjectKey.of(saved))
            if kind is NAMESPACES and present is not None and is_deleting(present):
                name = saved["metadata"]["name"]
                raise NotReady(f"the namespace {name} is being deleted: run the command again once it is gone")
            objection = choose_objection(kind, saved, present, now)
            if not self.undo_revocations and present is None:
                objection = objection or choose_revocation(kind, saved, on_existing_hub=is_hub)
                if kind is MANAGED_CLUSTERS and is_hub:
                    saved["spec"]["hubAcceptsClient"] = False
            if objection:
                skipped.append(f"{names_of([(kind, saved)])[0]}: {objection}")
            elif present is None:
                created.append((kind, saved))
            elif kind is not NAMESPACES and clean(present, kind) != saved:
                changed.append((kind, saved))
            else:
                unchanged += 1
        return HubRestore(tuple(created), tuple(changed), unchanged, tuple(skipped), is_hub)

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


def choose_objection(kind: Resource, saved: Object, present: Object | None, now: datetime) -> str:
    """Return why an object is left as it is; empty when it is restored."""
    if kind is MANAGED_CLUSTERS and present is not None and is_accepted(saved) and not is_accepted(present):
        return "denied since the backup, and stays denied"
    if kind is SECRETS and saved["metadata"].get("namespace") == TOKEN_SECRET_NAMESPACE:
        record = read_token_secret(saved)
        if isinstance(record, TokenRecord) and record.is_expired(now):
            return "the token has expired"
    return ""


def choose_revocation(kind: Resource, saved: Object, *, on_existing_hub: bool) -> str:
    """Return why an object that does not exist is not created: its deletion ended access, or may have."""
    if kind is SECRETS and saved["metadata"].get("namespace") == TOKEN_SECRET_NAMESPACE:
        where = "deleted since the backup" if on_existing_hub else "it may have been revoked since the backup"
        return f"{where}: create another token, or give --undo-revocations"
    if kind in ACCOUNT_KINDS and on_existing_hub:
        return "deleted since the backup: create it again, or give --undo-revocations"
    return ""


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
