"""No reader of an object raises anything but its documented error, whatever another writer put into the object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conftest import bounded

from watchword.addons.templates.definition import config_keys, read_template
from watchword.addons.templates.deployment_config import DeploymentConfig, mirrors_from_annotation
from watchword.addons.token.options import token_lifetime
from watchword.api.accounts import Account, AccountSecret, is_owned_by, read_token_validity
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster, is_accepted, is_member
from watchword.api.crds import HUB_CRDS, MANAGED_CRDS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Object, ObjectKey, ObjectRef, mapping_at
from watchword.api.names import Annotation
from watchword.api.resources import ADDON_DEPLOYMENT_CONFIGS, CONFIG_MAPS
from watchword.api.validation import DurationError, parse_duration, parse_seconds
from watchword.credentials.certificates.agent import certificate_lifetime
from watchword.credentials.certificates.name_ownership import read_name_owner
from watchword.discovery.token_secret import read_expiration, read_token_secret
from watchword.operator.cluster_manager_manifests import hub_flags, replicas_of
from watchword.operator.klusterlet_manifests import agent_flags
from watchword.operator.validation import validate_cluster_manager, validate_klusterlet
from watchword.registration.hub.cluster_lease import LeaseObservation, decide_lease_conditions, renewal_time
from watchword.registration.hub.cluster_removal import cleanup_priority
from watchword.registration.hub.retired_cluster_names import lease_end
from watchword.runtime.leader_election import ElectionTiming, ObservedLease, build_held_lease
from watchword.work.applied_work_store import read_applied_resources
from watchword.work.errors import NotPermitted
from watchword.work.executor import executor_of
from watchword.work.hub import decide_work_expiry
from watchword.work.manifests import manifests_of, meta_of, validate_manifest
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
    for number, manifest in enumerate(manifests_of(obj)):
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


@pytest.mark.parametrize("kind", READERS)
@bounded
@given(seed=st.integers(0, 2**32))
def test_object_of_any_content_is_read(kind: str, seed: int) -> None:
    READERS[kind](draw_object(kind, Random(seed)))


@bounded
@given(seed=st.integers(0, 2**32))
def test_secret_of_any_content_is_read(seed: int) -> None:
    random = Random(seed)
    names = ["token", "ca.crt", "token-id", "token-secret", "expiration"]
    data = {name: random.choice(ODD) for name in names}
    secret = {"metadata": draw_metadata(random), "type": "bootstrap.kubernetes.io/token", "data": data}

    account = AccountSecret.read(secret)
    assert account.expires_at is None or account.expires_at.year <= 9000
    read_expiration(secret)
    read_token_secret(secret)


@bounded
@given(seed=st.integers(0, 2**32))
def test_lease_of_any_content_is_read(seed: int) -> None:
    random = Random(seed)
    names = ["holderIdentity", "leaseDurationSeconds", "acquireTime", "renewTime", "leaseTransitions"]
    lease = {"metadata": draw_metadata(random), "spec": {name: random.choice(ODD) for name in names}}

    lease_end(lease)
    renewal_time(lease)
    ObservedLease(lease, 0.0).is_free(1.0)
    held = build_held_lease(lease, identity="one", timing=ElectionTiming(), now=NOW)
    assert 0 <= held["spec"]["leaseTransitions"] < 2**31


@pytest.mark.parametrize("value", ODD, ids=lambda value: repr(value)[:20])
def test_lifetime_of_any_size_can_be_computed_with(value: Any) -> None:
    token = token_lifetime({"--addon-token-expiration-seconds": str(value)})
    certificate = certificate_lifetime({"--client-cert-expiration-seconds": str(value)})

    assert NOW + token * 5 + (certificate or token) + (parse_seconds(value) or token) > NOW
    with suppress(DurationError):
        assert NOW + parse_duration(str(value)) > NOW - timedelta(days=1)


def nodes(schema: Object, path: str = "") -> Iterator[tuple[str, Object]]:
    yield path, schema
    for name, node in (schema.get("properties") or {}).items():
        yield from nodes(node, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from nodes(schema[name], f"{path}[]")


def all_nodes() -> Iterable[tuple[str, Object]]:
    for kind, crd in KINDS.items():
        for version in crd["spec"]["versions"]:
            yield from nodes(version["schema"]["openAPIV3Schema"], kind)


def test_every_field_of_every_kind_is_bounded() -> None:
    needs = {"integer": ("minimum", "maximum"), "string": ("maxLength", "enum", "format"), "array": ("maxItems",)}

    unbounded = [
        path
        for path, node in all_nodes()
        if node.get("type") in needs and not any(name in node for name in needs[node["type"]])
    ]

    # What a work reports of any object is any int64, and no reader of ours calculates with it.
    assert {path for path in unbounded if not path.endswith("fieldValue.integer")} == set()
