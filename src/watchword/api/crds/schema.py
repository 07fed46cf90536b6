"""CustomResourceDefinitions, whose schemas are written as outlines: a line for each field.

    name* kind constraint=value: description

A star marks a required field. A field is a string unless a kind is named, or an object if it has lines below it, which
are its fields. The line `-` below a list or a map says what it holds. `@name` is a part that is described elsewhere.
The value of a constraint is JSON, a name in `VALUES`, or a word.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import orjson

from watchword.api import limits
from watchword.api.meta import Object, Resource
from watchword.api.names import ADDON_NAMESPACE

PART_OF, PROJECT = "app.kubernetes.io/part-of", "watchword"
"""The label that marks our definitions of kinds which other systems define, too."""

VALUES: Mapping[str, Any] = {
    "ADDON_NAMESPACE": ADDON_NAMESPACE,
    "CONTAINER_ID": r"^(deployments|daemonsets|statefulsets|replicasets|jobs|cronjobs|pods|\*):.+:.+$",
    "DEADLINE": "^(([0-9])+[h|m|s])|None$",
    "DEFAULT_LEASE_SECONDS": limits.DEFAULT_LEASE_SECONDS,
    "DNS_LABEL": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
    "DNS_SUBDOMAIN": r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    # Wider than Open Cluster Management's pattern: every AWS partition, and underscores as EKS allows them.
    "EKS_ARN": r"^arn:aws(-cn|-us-gov)?:eks:[a-z0-9-]+:\d{12}:cluster/[0-9A-Za-z][A-Za-z0-9_-]{0,99}$",
    "HOSTNAME": (
        r"^(([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]*[a-zA-Z0-9])\.)*([A-Za-z0-9]|[A-Za-z0-9][A-Za-z0-9\-]*[A-Za-z0-9])$"
    ),
    "LONGEST_LEASE": int(limits.LONGEST_LEASE.total_seconds()),
    "OPTIONAL_DNS_LABEL": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$",
    "QUALIFIED_NAME": (
        r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
        r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    ),
    "REASON": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
    "SHORT_DURATION": r"^([0-9]+(s|m|h))+$",
    "SIGNER_NAME": r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$",
}
_QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)

# Far beyond any sensible value: Open Cluster Management has no such bounds, and readers compute with what they read.
LONGEST_TEXT = 65536
MOST_ITEMS = 10000
_INT_OR_STRING: Object = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
_MAP: Object = {"type": "object", "maxProperties": MOST_ITEMS}
_KINDS: Mapping[str, Object] = {
    "string": {"type": "string", "maxLength": LONGEST_TEXT},
    "bytes": {"type": "string", "format": "byte", "maxLength": 2 * limits.MAX_DOCUMENT_BYTES},
    "dateTime": {"type": "string", "format": "date-time"},
    "boolean": {"type": "boolean"},
    "int32": {"type": "integer", "format": "int32", "minimum": 0, "maximum": 2**31 - 1},
    "int64": {"type": "integer", "format": "int64", "minimum": 0, "maximum": 2**53},
    "anyInt64": {"type": "integer", "format": "int64"},
    "intOrPercent": {**_INT_OR_STRING, "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$"},
    "quantities": {**_MAP, "additionalProperties": {**_INT_OR_STRING, "pattern": _QUANTITY}},
    "object": {"type": "object"},
}
_LINE = re.compile(
    r"(?P<name>[^ *:]+)(?P<required>\*?)(?: (?P<kind>[^ =:]+))?(?P<constraints>(?: [^ =:]+=[^ ]+)*)(?:: (?P<what>.+))?"
)


def _read_fields(
    lines: Sequence[str], known: Mapping[str, Object], depth: int = 0
) -> tuple[dict[str, Object], list[str]]:
    """Return the fields that are described at a depth, and which of them are required."""
    starts = [number for number, line in enumerate(lines) if line[2 * depth] != " "]
    found: dict[str, Object] = {}
    required: list[str] = []
    for start, end in pairwise([*starts, len(lines)]):
        row = _LINE.fullmatch(lines[start].strip())
        assert row is not None, lines[start]
        above = known if depth else {**known, **found}
        inner, inner_required = _read_fields(lines[start + 1 : end], above, depth + 1)
        found[row["name"]] = _read_node(row, inner, inner_required, above)
        required += [row["name"]] if row["required"] else []
    return found, sorted(required)


def _read_node(
    row: re.Match[str], inner: dict[str, Object], required: Sequence[str], known: Mapping[str, Object]
) -> Object:
    kind, what = row["kind"] or ("" if inner else "string"), row["what"] or ""
    pairs = (each.partition("=") for each in row["constraints"].split())
    constraints = {name: _read_value(value) for name, _, value in pairs}
    described = {"description": what} if what else {}
    if kind.startswith("@"):
        return {**known[kind[1:]], **described, **constraints}
    if kind.startswith("enum("):
        return {"type": "string", **described, "enum": kind[len("enum(") : -1].split(","), **constraints}
    if kind == "list":
        keys = constraints.pop("keys", "")
        merged = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": keys.split(",")} if keys else {}
        limited = {"type": "array", "description": what, "items": inner["-"], "maxItems": MOST_ITEMS}
        return {**limited, **merged, **constraints}
    if kind == "map":
        return {**_MAP, **described, "additionalProperties": inner["-"], **constraints}
    if not kind:
        node = {"type": "object", "description": what, "properties": inner, **constraints}
        return {**node, "required": list(required)} if required else node
    return {**_KINDS[kind], **described, **constraints}


def _read_value(text: str) -> Any:
    if text in VALUES:
        return VALUES[text]
    return orjson.loads(text) if text[0] in '"{[-0123456789' or text in ("true", "false") else text


_COMMON = _read_fields(
    """\
conditions list keys=type: What is true of this object, and why.
  -: One statement.
    type* maxLength=316 pattern=QUALIFIED_NAME: What the statement is about.
    status* enum(True,False,Unknown): Whether it holds.
    observedGeneration int64: The generation the statement was made about.
    lastTransitionTime* dateTime: When the status last changed.
    reason* maxLength=1024 minLength=1 pattern=REASON: One word for programs.
    message* maxLength=32768: A sentence for people.
featureGates list: Features switched on or off.
  -: One feature.
    feature*: The feature's name.
    mode enum(Enable,Disable) default=Disable: Whether it is on.
""".splitlines(),
    {},
)[0]


def fields(outline: str, known: Mapping[str, Object] = {}) -> dict[str, Object]:
    """Return what an outline describes; its lines refer to what is known, and to what stands above them unindented."""
    return _read_fields(outline.strip().splitlines(), {**_COMMON, **known})[0]


def column(name: str, path: str, type_: str = "string") -> Object:
    return {"name": name, "jsonPath": path, "type": type_}


def condition_column(name: str, type_: str) -> Object:
    return column(name, f'.status.conditions[?(@.type=="{type_}")].status')


AGE = column("Age", ".metadata.creationTimestamp", "date")


def definition(  # noqa: PLR0913 - what defines a kind; most have the defaults
    resource: Resource,
    description: str,
    outline: str,
    *,
    parts: Mapping[str, Object] = {},
    columns: tuple[Object, ...] = (AGE,),
    short_names: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    status: bool = True,
    rules: tuple[Object, ...] = (),
) -> Object:
    """Return the definition of a kind, stored in the version of its resource; other versions are served `also`."""
    names = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    properties = {
        "apiVersion": {**_KINDS["string"], "description": "The version of this representation."},
        "kind": {**_KINDS["string"], "description": "The kind of this object."},
        "metadata": {"type": "object"},
        **fields(outline, parts),
    }
    root: Object = {"type": "object", "description": description, "properties": properties}
    version = {
        "served": True,
        "schema": {"openAPIV3Schema": {**root, **({"x-kubernetes-validations": list(rules)} if rules else {})}},
        **({"subresources": {"status": {}}} if status else {}),
        **({"additionalPrinterColumns": list(columns)} if columns else {}),
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource, "labels": {PART_OF: PROJECT}},
        "spec": {
            "group": resource.group,
            "names": {**names, **({"shortNames": list(short_names)} if short_names else {})},
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {"name": name, "storage": name == resource.version, **version} for name in (resource.version, *also)
            ],
        },
    }
