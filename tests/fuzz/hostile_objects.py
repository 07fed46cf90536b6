"""Objects of every kind whose parts are extreme or of another type, and everything of ours that reads them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from watchword.addons.templates.definition import config_keys, read_template
from watchword.addons.templates.deployment_config import DeploymentConfig, mirrors_from_annotation
from watchword.api.accounts import Account, is_owned_by, read_token_validity
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster, is_accepted, is_member
from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Object, ObjectKey, ObjectRef, list_at, mapping_at
from watchword.api.names import Annotation
from watchword.api.resources import ADDON_DEPLOYMENT_CONFIGS, CONFIG_MAPS
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.operator.cluster_manager import hub_flags, replicas_of, validate_cluster_manager
from watchword.operator.klusterlet import agent_flags, validate_klusterlet
from watchword.registration.hub.cluster_lease import LeaseObservation, decide_lease_conditions
from watchword.registration.hub.cluster_removal import cleanup_priority
from watchword.work.applied_work_store import read_applied_resources
from watchword.work.executor import NotPermitted, executor_of
from watchword.work.hub import decide_work_expiry
from watchword.work.manifests import meta_of, validate_manifest
from watchword.work.plan import choose_manifest_config, is_orphaned

NOW = datetime(2026, 1, 1, tzinfo=UTC)
TARGET = ObjectRef(CONFIG_MAPS, ObjectKey("default", "one"))
TEXTS = (
    "", "x" * 70000, "9" * 5000, "\x00\x1b[2J\u202e", "99999999999h", "-1s", "9999-12-31T23:59:59Z",
    "0001-01-01T00:00:00Z", "0", "-1", "True", "*", "{}", "[]", "null",
)  # fmt: skip
NUMBERS = (0, -1, 1, 600, 2**31, 2**63, 10**15, 10**30, -(10**30), 1.5, True)
ODD: tuple[Any, ...] = (
    *TEXTS,
    *NUMBERS,
    None,
    [],
    {},
    [None] * 1000,
    [[]],
    ["x"] * 5000,
    [{}] * 20,
    {"": None},
    {"x": {"y": []}},
)
KINDS: dict[str, Object] = {crd["spec"]["names"]["kind"]: crd for crd in (*HUB_CRDS, *MANAGED_CRDS, *ACCOUNT_CRDS)}


def draw(schema: Object, random: Random) -> Any:
    """Return a value of a schema, any part of which may be extreme or of another type."""
    if random.random() < 0.1:
        return random.choice(ODD)
    match schema.get("type"):
        case "object" if schema.get("properties"):
            chosen = [name for name in schema["properties"] if random.random() < 0.7]
            return {name: draw(schema["properties"][name], random) for name in chosen}
        case "object":
            return {random.choice(TEXTS): random.choice(ODD)}
        case "array":
            return [draw(schema["items"], random) for _ in range(random.randrange(3))]
        case "integer" | "boolean":
            return random.choice(NUMBERS)
        case _:
            return random.choice([*TEXTS, *schema.get("enum", ())])


def draw_object(kind: str, random: Random) -> Object:
    version = KINDS[kind]["spec"]["versions"][-1]
    schema = version["schema"]["openAPIV3Schema"]["properties"]
    head = {"apiVersion": f"{KINDS[kind]['spec']['group']}/{version['name']}", "kind": kind}
    rest = {name: draw(node, random) for name, node in schema.items() if name not in ("apiVersion", "kind")}
    return {**rest, **head, "metadata": draw_metadata(random)}


def draw_metadata(random: Random) -> Object:
    """Return metadata, whose types every API server guarantees."""
    names = [value for name, value in vars(Annotation).items() if name.isupper()]
    return {
        "name": random.choice(["one", "x" * 253]),
        "namespace": "here",
        "uid": "u",
        "annotations": {random.choice(names): random.choice(TEXTS) for _ in range(4)},
        "labels": {random.choice(names): random.choice(TEXTS) for _ in range(2)},
        "creationTimestamp": random.choice(TEXTS),
        "deletionTimestamp": random.choice(TEXTS),
        "finalizers": [random.choice(TEXTS)],
    }


def read_cluster(obj: Object) -> None:
    cluster = Cluster.read(obj)
    assert timedelta(seconds=1) <= cluster.lease_duration <= timedelta(days=7)
    is_accepted(obj)
    read_name_owner(obj)
    cleanup_priority(obj)
    mirrors_from_annotation(cluster.annotations.get(Annotation.IMAGE_REGISTRIES, ""))
    for text in TEXTS:
        decide_lease_conditions(cluster, LeaseObservation(text, NOW, live=True), now=NOW)


def read_addon(obj: Object) -> None:
    addon = Addon.read(obj)
    addon.registration_fields(addon.registrations)
    assert all(row.secret_name("one").startswith("one-") for row in addon.registrations)
    list(config_keys(obj, {}, ADDON_DEPLOYMENT_CONFIGS))


def read_account(obj: Object) -> None:
    account = Account.read(obj)
    assert account.expires_at() is None or account.ttl is not None
    assert account.request
    read_token_validity(obj)
    is_owned_by(obj, [obj])


def read_work(obj: Object) -> None:
    decide_work_expiry(obj)
    for number, manifest in enumerate(list_at(obj, "spec", "workload", "manifests")):
        meta_of(number, manifest)
        validate_manifest(manifest)
    spec = mapping_at(obj, "spec")
    choose_manifest_config(spec, TARGET)
    is_orphaned(spec, TARGET)
    with suppress(NotPermitted):
        executor_of(obj)


def read_klusterlet(obj: Object) -> None:
    if validate_klusterlet(obj) is None:
        agent_flags(obj)


def read_cluster_manager(obj: Object) -> None:
    replicas_of(obj)
    if validate_cluster_manager(obj) is None:
        hub_flags(obj)


READERS: dict[str, Callable[[Object], object]] = {
    "ManagedCluster": read_cluster,
    "ManagedClusterSet": lambda obj: is_member(obj, {"x": "y"}),
    "ManagedClusterAddOn": read_addon,
    "ManagedServiceAccount": read_account,
    "ManifestWork": read_work,
    "AppliedManifestWork": lambda obj: [row.target for row in read_applied_resources(obj)],
    "Klusterlet": read_klusterlet,
    "ClusterManager": read_cluster_manager,
    "AddOnTemplate": lambda obj: read_template(obj, {"metadata": {"name": "one"}}, DeploymentConfig()),
    "AddOnDeploymentConfig": DeploymentConfig.read,
    "ClusterManagementAddOn": lambda obj: list(config_keys({}, obj, ADDON_DEPLOYMENT_CONFIGS)),
}
