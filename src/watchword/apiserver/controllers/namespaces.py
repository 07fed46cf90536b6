"""Creates what every namespace has, and deletes the content of namespaces that are being deleted."""

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import datetime

from msgspec import field

from watchword.api.conditions import Condition, conditions_of, merge_condition
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, finalizers_of, is_deleting
from watchword.api.resources import CONFIG_MAPS, CORE_EVENTS, NAMESPACES, PODS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339
from watchword.apiserver.controllers.garbage_collection import AllKindsWatch, stored_kinds
from watchword.apiserver.controllers.worker import Controller, Watches, create_if_absent, delete_if_unchanged
from watchword.apiserver.serving.model import ApiError, Now

ACCOUNT = "default"
BUNDLE = "kube-root-ca.crt"
CLIENTS = ObjectKey("kube-system", "extension-apiserver-authentication")
DESCRIPTION = "kubernetes.io/description"
_DESCRIBED = "The CA bundle by which clients inside the cluster verify its API server; meant for nothing else."
BUNDLE_CHECK_SECONDS = 3600.0  # as often as the certificates of this plane are renewed
FINALIZER = "kubernetes"
DELETED_TOGETHER = 50
"""Deletions of one namespace at a time: together they take one transaction of the store, not one each."""
_DELETION = "NamespaceDeletion"
# Deletion here works on the registry itself: these three always succeed, and are set for compatibility.
_SUCCEEDED = (
    Condition.false(f"{_DELETION}DiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    Condition.false(
        f"{_DELETION}GroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"
    ),
    Condition.false(
        f"{_DELETION}ContentFailure",
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
)


class NamespaceDefaultsController(Controller[str]):
    """Triggered by namespaces, and by the loss or change of what it created there."""

    root_bundle: Callable[[], bytes]

    def watches(self) -> Watches:
        return {
            NAMESPACES: self._namespace_changed,
            SERVICE_ACCOUNTS: self._account_changed,
            CONFIG_MAPS: self._bundle_changed,
        }

    def _namespace_changed(self, change: str, new: Object) -> None:
        if change == "ADDED" and not is_deleting(new):
            self.worker.enqueue(new["metadata"]["name"])

    def _account_changed(self, change: str, new: Object) -> None:
        if change == "DELETED" and new["metadata"]["name"] == ACCOUNT:
            self.worker.enqueue(new["metadata"]["namespace"])

    def _bundle_changed(self, change: str, new: Object) -> None:
        if change != "ADDED" and new["metadata"]["name"] in (BUNDLE, CLIENTS.name):
            self.worker.enqueue(new["metadata"]["namespace"])

    async def sync(self, name: str) -> float | None:
        namespace = self.registry.get(NAMESPACES, ObjectKey.cluster(name))
        if namespace is None or is_deleting(namespace):
            return None
        if self.registry.get(SERVICE_ACCOUNTS, ObjectKey(name, ACCOUNT)) is None:
            await self._create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(ObjectKey(name, ACCOUNT)))
        await self._publish(ObjectKey(name, BUNDLE), "ca.crt", {DESCRIPTION: _DESCRIBED})
        if name != CLIENTS.namespace:
            return None
        if await self._publish(CLIENTS, "client-ca-file", {}):  # another authority: the other namespaces follow
            for each in self.registry.list(NAMESPACES):
                self.worker.enqueue(each["metadata"]["name"])
        return BUNDLE_CHECK_SECONDS

    async def _publish(self, key: ObjectKey, name: str, annotations: dict[str, str]) -> bool:
        """Return whether the ConfigMap had another bundle."""
        bundle = {name: self.root_bundle().decode()}
        found = self.registry.get(CONFIG_MAPS, key)
        if found is None:
            metadata = {"annotations": annotations} if annotations else {}
            await self._create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, metadata=metadata, data=bundle))
            return False
        others = (found.get("data") or {}) if key == CLIENTS else {}  # there, others may add what they know
        is_other = found.get("data") != {**others, **bundle}
        if is_other or annotations.keys() - annotations_of(found).keys():
            found["data"] = {**others, **bundle}
            if annotations:
                found["metadata"].setdefault("annotations", {}).update(annotations)
            await self.registry.update(CONFIG_MAPS, found)
        return is_other

    async def _create(self, resource: Resource, obj: Object) -> None:
        try:
            await create_if_absent(self.registry, resource, obj)
        except ApiError as refusal:
            causes = (refusal.details or {}).get("causes") or ()
            if refusal.code != 404 and all(cause.get("reason") != "NamespaceTerminating" for cause in causes):
                raise


class NamespaceLifecycleController(Controller[str]):
    """Triggered by namespaces that are being deleted, and by each object that leaves one."""

    all_kinds_watch: AllKindsWatch
    now: Now
    _ending: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.all_kinds_watch.listeners.append(self._content_changed)

    def watches(self) -> Watches:
        return {NAMESPACES: self._namespace_changed}

    def _namespace_changed(self, change: str, new: Object) -> None:
        name = new["metadata"]["name"]
        if change == "DELETED":
            self._ending.discard(name)
        elif is_deleting(new):
            self._ending.add(name)
            self.worker.enqueue(name)

    def _content_changed(self, _resource: Resource, change: str, obj: Object) -> None:
        namespace = obj["metadata"].get("namespace")
        if namespace in self._ending and (change != "MODIFIED" or is_deleting(obj)):
            self.worker.enqueue(namespace)

    async def sync(self, name: str) -> float | None:
        namespace = self.registry.get(NAMESPACES, ObjectKey.cluster(name))
        if namespace is None or not is_deleting(namespace):
            return None
        finalizers = (namespace.get("spec") or {}).get("finalizers") or []
        if FINALIZER not in finalizers:
            return None
        remaining = await self._delete_content(name)
        if remaining:
            await self._report(namespace, remaining)
            return next_grace_end(remaining, now=self.now())
        namespace["spec"]["finalizers"] = [each for each in finalizers if each != FINALIZER]
        await self.registry.update(NAMESPACES, namespace, "finalize")
        return None

    async def _delete_content(self, name: str) -> dict[Resource, list[Object]]:
        resources = [kind.resource for kind in stored_kinds(self.registry.kinds()) if kind.resource.namespaced]
        if self.registry.kind("", "v1", CORE_EVENTS.plural):
            resources.append(CORE_EVENTS)
        pods = [resource for resource in resources if resource == PODS]  # first: what they use must not vanish
        return await self._delete_all(name, pods) or await self._delete_all(name, resources)

    async def _delete_all(self, name: str, resources: list[Resource]) -> dict[Resource, list[Object]]:
        """Delete what a namespace has of these kinds, many at a time; return what is left."""
        found = [(resource, obj) for resource in resources for obj in self.registry.list(resource, name)]
        for start in range(0, len(found), DELETED_TOGETHER):
            chunk = found[start : start + DELETED_TOGETHER]
            await asyncio.gather(*(self._delete(resource, obj) for resource, obj in chunk))
        left = {resource: self.registry.list(resource, name) for resource in resources}
        return {resource: objects for resource, objects in left.items() if objects}

    async def _delete(self, resource: Resource, obj: Object) -> None:
        grace = None
        if is_deleting(obj):
            ends = parse_rfc3339(obj["metadata"]["deletionTimestamp"])
            if finalizers_of(obj) or ends is None or ends > self.now():
                return
            grace = 0  # its grace period is over and no node ended it
        await delete_if_unchanged(self.registry, resource, obj, grace_seconds=grace)

    async def _report(self, namespace: Object, remaining: dict[Resource, list[Object]]) -> None:
        rows = conditions_of(namespace)
        changed = False
        for condition in remaining_content_conditions(remaining):
            merged = merge_condition(rows, condition, now=self.now())
            if merged is not None:
                rows, changed = merged, True
        if changed:
            namespace["status"] = {**(namespace.get("status") or {}), "conditions": rows}
            await self.registry.update(NAMESPACES, namespace, "status")


def next_grace_end(remaining: dict[Resource, list[Object]], *, now: datetime) -> float | None:
    """Return in how many seconds the first pod's grace is over, None when no pod is waited for."""
    ends = [
        parse_rfc3339(pod["metadata"]["deletionTimestamp"])
        for pod in remaining.get(PODS, [])
        if is_deleting(pod) and not finalizers_of(pod)
    ]
    waits = [(end - now).total_seconds() for end in ends if end is not None]
    return max(min(waits), 0.001) if waits else None


def remaining_content_conditions(remaining: dict[Resource, list[Object]]) -> list[Condition]:
    counts = ", ".join(
        f"{resource.plural}.{resource.group} has {len(left)} resource instances"
        for resource, left in sorted(remaining.items(), key=lambda row: row[0].plural)
    )
    holders = Counter(name for left in remaining.values() for obj in left for name in finalizers_of(obj))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(holders.items()))
    finalizers = Condition.false(
        "NamespaceFinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"
    )
    if held:
        finalizers = Condition.true(
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            f"Some content in the namespace has finalizers remaining: {held}",
        )
    remains = f"Some resources are remaining: {counts}"
    return [*_SUCCEEDED, Condition.true("NamespaceContentRemaining", "SomeResourcesRemain", remains), finalizers]
