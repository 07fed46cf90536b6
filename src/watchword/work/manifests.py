"""Reads the manifests of a work: each becomes an object to apply, in order, or is refused with one sentence."""

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.limits import LONGEST_SUBDOMAIN
from watchword.api.meta import Object, ObjectKey, ObjectRef, Resource, list_at, mapping_at
from watchword.api.validation import is_dns_label, is_dns_subdomain
from watchword.kube.rest_mapper import RestMapper

MAX_MANIFEST_BYTES = 500 * 1024
KEPT_METADATA = ("name", "namespace", "labels", "annotations", "finalizers")
_VERSION = re.compile(r"[a-z0-9]{1,63}", re.ASCII)
_KIND = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,62}", re.ASCII)
_NAME = re.compile(r"[!-$&-.0-~]+", re.ASCII)  # visible characters without '%' and '/'
_RANKS: tuple[tuple[str, ...], ...] = (
    ("PriorityClass", "Namespace", "CustomResourceDefinition", "StorageClass", "PersistentVolume", "PodSecurityPolicy"),
    ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
    ("NetworkPolicy", "ResourceQuota", "LimitRange", "PodDisruptionBudget", "ServiceAccount"),
    ("Secret", "ConfigMap", "PersistentVolumeClaim"),
    ("Service",),
    (
        "DaemonSet",
        "Pod",
        "ReplicationController",
        "ReplicaSet",
        "Deployment",
        "HorizontalPodAutoscaler",
        "StatefulSet",
        "Job",
        "CronJob",
    ),
    (
        "APIService",
        "ValidatingWebhookConfiguration",
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    ),
)
_RANK_OF = {kind: rank for rank, kinds in enumerate(_RANKS) for kind in kinds}


class ManifestMeta(Struct, frozen=True):
    """Which manifest of a work is meant, as far as it says."""

    ordinal: int
    group: str = ""
    version: str = ""
    kind: str = ""
    resource: str = ""
    namespace: str = ""
    name: str = ""


class ResolvedManifest(Struct, frozen=True):
    """A manifest that can be applied: which object it is and what is wanted of it."""

    meta: ManifestMeta
    target: ObjectRef
    wanted: Object
    digest: str  # of what is wanted


class RejectedManifest(Struct, frozen=True):
    """A manifest that cannot be applied, and why."""

    meta: ManifestMeta
    why: str
    retryable: bool = False  # whether time may help: its kind may yet be served


def meta_of(ordinal: int, manifest: Any) -> ManifestMeta:
    metadata = mapping_at(manifest, "metadata")
    manifest = mapping_at(manifest)
    group, _, version = _text(manifest.get("apiVersion")).rpartition("/")
    return ManifestMeta(
        ordinal,
        group=group,
        version=version,
        kind=_text(manifest.get("kind")),
        namespace=_text(metadata.get("namespace")),
        name=_text(metadata.get("name")),
    )


def _text(value: Any) -> str:
    return value[:LONGEST_SUBDOMAIN] if isinstance(value, str) else ""


def validate_manifest(manifest: Any) -> str:
    """Say why a manifest is refused whatever its kind; empty when it is not."""
    if not isinstance(manifest, Mapping):
        return "the manifest is not an object"
    try:
        size = len(orjson.dumps(manifest))
    except TypeError:
        return "the manifest has a number of more than 64 bits"
    if size > MAX_MANIFEST_BYTES:
        return f"the manifest is larger than {MAX_MANIFEST_BYTES // 1024} KiB: split it"
    group, _, version = _text(manifest.get("apiVersion")).rpartition("/")
    if not _VERSION.fullmatch(version) or not (group == "" or is_dns_subdomain(group)):
        return "the manifest has no valid apiVersion: write it like apps/v1"
    if not _KIND.fullmatch(_text(manifest.get("kind"))):
        return "the manifest has no valid kind"
    metadata = manifest.get("metadata")
    return validate_metadata(metadata) if isinstance(metadata, Mapping) else "the manifest has no metadata"


def validate_metadata(metadata: Mapping[str, Any]) -> str:
    """Say why an object cannot be known by its metadata; empty when it can."""
    name, namespace = metadata.get("name"), metadata.get("namespace")
    if metadata.get("generateName"):
        return "generateName is not supported: every object of a work needs a name of its own"
    if not name:
        return "the manifest has no name"
    if not isinstance(name, str) or not is_path_segment(name):
        longest = f"at most {LONGEST_SUBDOMAIN} visible characters"
        return f"the name cannot be that of an object: use {longest} without '/' and '%'"
    if namespace not in (None, "") and not (isinstance(namespace, str) and is_dns_label(namespace)):
        return "the namespace is not a DNS label"
    return ""


def is_path_segment(name: str) -> bool:
    """Whether a name can stand in a URL as one segment; the server knows more about each kind."""
    return _NAME.fullmatch(name) is not None and name not in (".", "..") and len(name) <= LONGEST_SUBDOMAIN


def resolve_manifest(meta: ManifestMeta, manifest: Object, resource: Resource) -> ResolvedManifest | RejectedManifest:
    meta = replace(meta, resource=resource.plural, namespace=meta.namespace if resource.namespaced else "")
    if resource.namespaced and not meta.namespace:
        return RejectedManifest(meta, f"a {resource.kind} is namespaced: set metadata.namespace")
    target = ObjectRef(resource, ObjectKey(meta.namespace, meta.name))
    wanted = choose_desired_object(manifest, target)
    return ResolvedManifest(
        meta, target, wanted, hashlib.sha256(orjson.dumps(wanted, option=orjson.OPT_SORT_KEYS)).hexdigest()
    )


def choose_desired_object(manifest: Mapping[str, Any], target: ObjectRef) -> Object:
    """Return the part of a manifest that a work decides: no status, nothing that only a server can say.

    Owners named in a manifest are left out: their UIDs are those of another cluster, and naming an owner that does
    not exist means deletion.
    """
    metadata = {name: value for name, value in manifest["metadata"].items() if name in KEPT_METADATA and value}
    if not target.key.namespace:
        metadata.pop("namespace", None)
    wanted = {**{name: value for name, value in manifest.items() if name != "status"}, "metadata": metadata}
    return _with_encoded_data(wanted) if target.resource.group_resource == "secrets" else wanted


def _with_encoded_data(secret: Object) -> Object:
    """Write `stringData` as the server will keep it: otherwise it would look missing for ever.

    What is not text stays as it is: the server refuses it, and a guess at what was meant would be stored instead.
    """
    texts = secret.get("stringData")
    if not isinstance(texts, Mapping) or not all(isinstance(text, str) for text in texts.values()):
        return secret
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in texts.items()}
    rest = {name: value for name, value in secret.items() if name != "stringData"}
    return {**rest, "data": {**(rest.get("data") or {}), **encoded}}


def reject_duplicates(
    manifests: Iterable[ResolvedManifest | RejectedManifest],
) -> list[ResolvedManifest | RejectedManifest]:
    """Refuse what names an object that an earlier manifest of the same work names already."""
    seen: dict[tuple[str, str, str, str], int] = {}
    judged: list[ResolvedManifest | RejectedManifest] = []
    for one in manifests:
        if isinstance(one, ResolvedManifest):
            first = seen.setdefault(one.target.identity, one.meta.ordinal)
            if first != one.meta.ordinal:
                one = RejectedManifest(one.meta, f"the same object is manifest {first} of this work already")  # noqa: PLW2901
        judged.append(one)
    return judged


def choose_apply_order(manifests: Iterable[ResolvedManifest]) -> list[ResolvedManifest]:
    """Return the manifests by rank; what is not built in comes last, when its definition may be served."""
    return sorted(manifests, key=lambda one: _RANK_OF.get(one.meta.kind, len(_RANKS)))


async def resolve_manifests(work: Object, rest_mapper: RestMapper) -> list[ResolvedManifest | RejectedManifest]:
    """Place every manifest or refuse it; asks the cluster only about kinds that were not used before."""
    rows = list_at(work, "spec", "workload", "manifests")
    return reject_duplicates([await _resolve(n, manifest, rest_mapper) for n, manifest in enumerate(rows)])


async def _resolve(ordinal: int, manifest: Any, rest_mapper: RestMapper) -> ResolvedManifest | RejectedManifest:
    meta = meta_of(ordinal, manifest)
    objection = validate_manifest(manifest)
    if objection:
        return RejectedManifest(meta, objection)
    resource = await rest_mapper.find(manifest["apiVersion"], meta.kind)
    if resource is None:
        why = f"the cluster does not serve {meta.kind} in {manifest['apiVersion']}: install what defines it"
        return RejectedManifest(meta, why, retryable=True)
    return resolve_manifest(meta, manifest, resource)
