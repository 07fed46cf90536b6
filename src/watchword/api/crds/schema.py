"""Functions with which the schemas of the fleet's kinds are written."""

from typing import Any

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object, Resource

PART_OF, PROJECT = "app.kubernetes.io/part-of", "watchword"
"""The label that marks our definitions of kinds which other systems define, too."""

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)
QUANTITY = (
    r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
)
SIGNER_NAME = r"^([a-z0-9][a-z0-9-]*[a-z0-9]\.)+[a-z]+\/[a-z0-9-\.]+$"
# Wider than Open Cluster Management's pattern: every AWS partition, and underscores as EKS allows them.
EKS_ARN = r"^arn:aws(-cn|-us-gov)?:eks:[a-z0-9-]+:\d{12}:cluster/[0-9A-Za-z][A-Za-z0-9_-]{0,99}$"
SHORT_DURATION = r"^([0-9]+(s|m|h))+$"


# Far beyond any sensible value: Open Cluster Management has no such bounds, and readers compute with what they read.
LONGEST_TEXT = 65536
MOST_ITEMS = 10000
_LARGEST = {32: 2**31 - 1, 64: 2**53}


def string(description: str, **constraints: Any) -> Object:
    return {"type": "string", "description": description, "maxLength": LONGEST_TEXT, **constraints}


def string_enum(description: str, *values: str, default: str | None = None) -> Object:
    node: Object = {"type": "string", "description": description, "enum": list(values)}
    return node if default is None else {**node, "default": default}


def whole(description: str, *, bits: int = 32, **constraints: Any) -> Object:
    """Return an integer, by default not a negative one."""
    bounds = {"minimum": 0, "maximum": _LARGEST[bits]}
    return {"type": "integer", "format": f"int{bits}", "description": description, **bounds, **constraints}


def boolean(description: str) -> Object:
    return {"type": "boolean", "description": description}


def date_time(description: str, *, nullable: bool = False) -> Object:
    return {
        "type": "string",
        "format": "date-time",
        "description": description,
        **({"nullable": True} if nullable else {}),
    }


def base64_bytes(description: str) -> Object:
    return {"type": "string", "format": "byte", "description": description, "maxLength": 2 * MAX_DOCUMENT_BYTES}


def record(description: str, fields: dict[str, Object], *, required: tuple[str, ...] = (), **more: Any) -> Object:
    node: Object = {"type": "object", "description": description, "properties": fields, **more}
    return {**node, "required": list(required)} if required else node


def array(description: str, items: Object, *, keys: tuple[str, ...] = (), **constraints: Any) -> Object:
    """Return a list; with keys, a list that merges item by item."""
    bounds = {"maxItems": MOST_ITEMS}
    node: Object = {"type": "array", "description": description, "items": items, **bounds, **constraints}
    if keys:
        node["x-kubernetes-list-type"] = "map"
        node["x-kubernetes-list-map-keys"] = list(keys)
    return node


def map_of(description: str, values: Object) -> Object:
    return {"type": "object", "description": description, "additionalProperties": values, "maxProperties": MOST_ITEMS}


def quantity_map(description: str) -> Object:
    quantity = {"anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": QUANTITY}
    return map_of(description, {**quantity, "x-kubernetes-int-or-string": True})


def conditions(description: str = "What is true of this object, and why.") -> Object:
    fields = {
        "type": string("What the statement is about.", maxLength=316, pattern=QUALIFIED_NAME),
        "status": string_enum("Whether it holds.", "True", "False", "Unknown"),
        "observedGeneration": whole("The generation the statement was made about.", bits=64, minimum=0),
        "lastTransitionTime": date_time("When the status last changed."),
        "reason": string(
            "One word for programs.", minLength=1, maxLength=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
        ),
        "message": string("A sentence for people.", maxLength=32768),
    }
    required = ("lastTransitionTime", "message", "reason", "status", "type")
    return array(description, record("One statement.", fields, required=required), keys=("type",))


def _atomic(node: Object) -> Object:
    return {**node, "x-kubernetes-list-type": "atomic"}


def label_selector(description: str) -> Object:
    expression = record(
        "One requirement.",
        {
            "key": string("The label's key."),
            "operator": string("In, NotIn, Exists or DoesNotExist."),
            "values": _atomic(array("The values compared with.", string("A value."))),
        },
        required=("key", "operator"),
    )
    fields = {
        "matchLabels": map_of("Labels that must have exactly these values.", string("A value.")),
        "matchExpressions": _atomic(array("Requirements that must all hold.", expression)),
    }
    return {**record(description, fields), "x-kubernetes-map-type": "atomic"}


def feature_gates() -> Object:
    fields = {
        "feature": string("The feature's name."),
        "mode": string_enum("Whether it is on.", "Enable", "Disable", default="Disable"),
    }
    return array("Features switched on or off.", record("One feature.", fields, required=("feature",)))


def column(name: str, path: str, type_: str = "string") -> Object:
    return {"name": name, "jsonPath": path, "type": type_}


def condition_column(name: str, type_: str) -> Object:
    return column(name, f'.status.conditions[?(@.type=="{type_}")].status')


AGE = column("Age", ".metadata.creationTimestamp", "date")


def version(
    name: str, description: str, fields: dict[str, Object], *, columns: tuple[Object, ...] = (), **more: Any
) -> Object:
    """Return one served version; pass `storage=True` for the one that is stored and `status=False` for none."""
    has_status = more.pop("status", True)
    storage = more.pop("storage", True)
    schema = record(
        description,
        {
            "apiVersion": string("The version of this representation."),
            "kind": string("The kind of this object."),
            "metadata": {"type": "object"},
            **fields,
        },
        **more,
    )
    node: Object = {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}
    if has_status:
        node["subresources"] = {"status": {}}
    if columns:
        node["additionalPrinterColumns"] = list(columns)
    return node


def definition(resource: Resource, *versions: Object, short_names: tuple[str, ...] = ()) -> Object:
    names: Object = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if short_names:
        names["shortNames"] = list(short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": resource.group_resource, "labels": {PART_OF: PROJECT}},
        "spec": {
            "group": resource.group,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": list(versions),
        },
    }
