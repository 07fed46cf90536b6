"""Validates a CustomResourceDefinition before it is stored."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

import orjson

from watchword.api.meta import Object, annotations_of
from watchword.apiserver.crd.definition import (
    API_APPROVED,
    SCHEMAS_REMEMBERED,
    is_established,
    names_of,
    openapi_of,
    places,
    spec_of,
    status_of,
    subresources_of,
    validate_names,
    versions_of,
)
from watchword.apiserver.crd.schema_validation import (
    UNREADABLE,
    check_defaults,
    check_schema,
    expression_errors,
    expressions_of,
)
from watchword.apiserver.field_errors import duplicate, forbidden, invalid, not_supported, required, too_many
from watchword.apiserver.kinds.metadata import IMMUTABLE, dns1035_label, dns_subdomain
from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.from_openapi import Node, below, is_set, objects, properties_of, text, texts
from watchword.apiserver.schema.structural import check_structural

MAX_SELECTABLE_FIELDS: Final = 8
_COLUMN_TYPES: Final = ("boolean", "date", "integer", "number", "string")
_COLUMN_FORMATS: Final = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
# With a status endpoint the root may contain only what splits cleanly between spec and status.
_AT_STATUS_ROOT: Final = (
    *("description", "type", "format", "title", "maximum", "exclusiveMaximum", "minimum", "exclusiveMinimum"),
    *("maxLength", "minLength", "pattern", "maxItems", "minItems", "uniqueItems", "multipleOf", "required", "items"),
    *("properties", "externalDocs", "example", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
)
_AS_IN_GO: Final = {
    "x-kubernetes-preserve-unknown-fields": "XPreserveUnknownFields",
    "x-kubernetes-validations": "XValidations",
}


def check_status_root(openapi: Node, path: str) -> Iterator[FieldError]:
    if any(key not in _AT_STATUS_ROOT and is_set(openapi, key) for key in openapi):
        listed = " ".join(_AS_IN_GO.get(key, key[0].upper() + key[1:]) for key in _AT_STATUS_ROOT)
        detail = f"only [{listed}] fields are allowed at the root of the schema if the status subresource is enabled"
        yield invalid(path, openapi, detail)


def check_scale(subresources: Object, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if not isinstance(scale, dict):
        return
    for key, root in (("specReplicasPath", ".spec."), ("statusReplicasPath", ".status.")):
        said, place = text(scale, key), f"{path}.scale.{key}"
        if not said:
            yield required(place)
        elif not said.startswith("."):
            yield invalid(place, said, "must be a simple json path starting with .")
        elif not said.startswith(root):
            yield invalid(place, said, f"should be a json path under {root[:-1]}")
    said, place = text(scale, "labelSelectorPath"), f"{path}.scale.labelSelectorPath"
    if said and not said.startswith("."):
        yield invalid(place, said, "must be a simple json path starting with .")
    elif said and not said.startswith((".spec.", ".status.")):
        yield invalid(place, said, "should be a json path under either .spec or .status")


def check_columns(columns: list[Object], path: str) -> Iterator[FieldError]:
    for index, column in enumerate(columns):
        place, types = f"{path}[{index}]", f"must be one of {','.join(_COLUMN_TYPES)}"
        if not text(column, "name"):
            yield required(f"{place}.name")
        if not text(column, "type"):
            yield required(f"{place}.type", types)
        elif text(column, "type") not in _COLUMN_TYPES:
            yield invalid(f"{place}.type", text(column, "type"), types)
        if text(column, "format") and text(column, "format") not in _COLUMN_FORMATS:
            yield invalid(f"{place}.format", text(column, "format"), f"must be one of {','.join(_COLUMN_FORMATS)}")
        if not text(column, "jsonPath"):
            yield required(f"{place}.JSONPath")
        elif not text(column, "jsonPath").startswith("."):
            yield invalid(f"{place}.JSONPath", text(column, "jsonPath"), "must be a simple json path starting with .")


def check_selectable(fields: list[Object], openapi: Node, path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, field in enumerate(fields):
        said, place = text(field, "jsonPath"), f"{path}[{index}].jsonPath"
        if not said:
            yield required(place)
            continue
        node = _find(openapi, said)
        if node is None:
            yield invalid(place, said, "is an invalid path: does not refer to a valid field")
            continue
        if said.startswith(".metadata"):
            yield invalid(place, said, "must not point to fields in metadata")
        if text(node, "type") not in {"string", "boolean", "integer"}:
            detail = (
                "must point to a field of type string, boolean or integer. "
                "Enum string fields and strings with formats are allowed."
            )
            yield invalid(place, said, detail)
        if said in seen:
            yield duplicate(place, said)
        seen.add(said)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _find(openapi: Node, path: str) -> Node | None:
    if not path.startswith("."):
        return None
    node: Node | None = openapi
    for part in path[1:].split("."):
        node = properties_of(node).get(part) if node is not None else None
    return node


_SCOPES: Final = ("Cluster", "Namespaced")
_STRATEGIES: Final = ("None", "Webhook")
_SEE: Final = "see https://github.com/kubernetes/enhancements/pull/1111"


def definition_errors(new: Object, old: Object | None = None) -> list[FieldError]:
    """Return every broken rule of a definition; with `old`, of its change."""
    found = [] if old is not None else list(_check_name(new))
    found.extend(_check_spec(new))
    found.extend(_check_expressions(new, old))
    if old is not None:
        found.extend(_check_immutable(new, old))
    found.extend(_check_stored_versions(new))
    found.extend(_check_approval(new, old))
    return found


def _check_expressions(new: Object, old: Object | None) -> Iterator[FieldError]:
    for place, version in places(new, "schema", "validation"):
        openapi = openapi_of(version)
        broken = expression_errors(orjson.dumps(openapi), f"{place}.openAPIV3Schema") if openapi is not None else ()
        accepted = _expressions_of(old) if broken and old is not None else frozenset()
        yield from (error for expression, error in broken if expression not in accepted)


def _expressions_of(definition: Object) -> frozenset[str]:
    stored = [openapi_of(version) for version in versions_of(definition)]
    return frozenset(each for openapi in stored if openapi is not None for _, each in expressions_of(openapi))


def _check_name(definition: Object) -> Iterator[FieldError]:
    name = text(definition.get("metadata") or {}, "name")
    if name != f"{text(names_of(definition), 'plural')}.{text(spec_of(definition), 'group')}":
        yield invalid("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _check_spec(definition: Object) -> Iterator[FieldError]:
    spec = spec_of(definition)
    group, scope = text(spec, "group"), text(spec, "scope")
    complaints = ",".join(dns_subdomain(group))
    if not group:
        yield required("spec.group")
    elif complaints:
        yield invalid("spec.group", group, complaints)
    elif "." not in group:
        yield invalid("spec.group", group, "should be a domain with at least one dot")
    if not scope:
        yield required("spec.scope")
    elif scope not in _SCOPES:
        yield not_supported("spec.scope", scope, _SCOPES)
    if spec.get("preserveUnknownFields"):
        detail = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
        )
        yield invalid("spec.preserveUnknownFields", value=True, detail=detail)
    yield from _check_versions(definition)
    yield from validate_names(names_of(definition), "spec.names")
    yield from _check_conversion(spec)


def _check_versions(definition: Object) -> Iterator[FieldError]:
    versions = versions_of(definition)
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        if openapi_of(version) is None:
            yield required(f"{place}.schema.openAPIV3Schema")
        complaints = ",".join(dns1035_label(text(version, "name")))
        if complaints:
            yield invalid(f"{place}.name", text(version, "name"), complaints)
        yield from _check_deprecation(version, place)
    yield from _check_schemas(definition)
    for place, version in places(definition, "subresources", "subresources"):
        yield from check_scale(subresources_of(version), place)
    for place, version in places(definition, "additionalPrinterColumns", "additionalPrinterColumns"):
        yield from check_columns(objects(version, "additionalPrinterColumns"), place)
    for place, version in places(definition, "selectableFields", "selectableFields"):
        yield from check_selectable(objects(version, "selectableFields"), openapi_of(version) or {}, place)
    names = [text(version, "name") for version in versions]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        yield invalid("spec.versions", versions or None, "must have exactly one version marked as storage version")


def _check_schemas(definition: Object) -> Iterator[FieldError]:
    for place, version in places(definition, "schema", "validation"):
        openapi = openapi_of(version)
        if openapi is not None:
            has_status = "status" in subresources_of(version)
            yield from _schema_errors(orjson.dumps(openapi), f"{place}.openAPIV3Schema", has_status=has_status)


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def _schema_errors(document: bytes, path: str, *, has_status: bool) -> tuple[FieldError, ...]:
    openapi = orjson.loads(document)
    of_root = check_status_root(openapi, path) if has_status else ()
    misused = check_schema(openapi, path)
    if any(error.message.endswith(UNREADABLE) for error in misused):
        return (*of_root, *misused)
    return (*of_root, *(check_structural(openapi, path) or check_defaults(openapi, path)), *misused)


def _check_deprecation(version: Object, place: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    path = f"{place}.deprecationWarning"
    if not version.get("deprecated"):
        yield invalid(path, warning, "can only be set for deprecated versions")
    elif not warning:
        yield invalid(path, warning, "must not be an empty string")
    elif len(str(warning).encode()) > 256:
        yield invalid(path, warning, "must be <= 256 characters long")
    elif not str(warning).isprintable():
        yield invalid(path, warning, "must only contain printable UTF-8 characters")


def _check_conversion(spec: Object) -> Iterator[FieldError]:
    conversion = spec.get("conversion")
    if not isinstance(conversion, dict):
        return
    strategy = text(conversion, "strategy")
    if not strategy:
        yield required("spec.conversion.strategy")
    elif strategy not in _STRATEGIES:
        yield not_supported("spec.conversion.strategy", strategy, _STRATEGIES)
    webhook = below(conversion, "webhook") or {}
    if strategy == "Webhook" and not webhook.get("clientConfig"):
        yield required("spec.conversion.webhookClientConfig", "required when strategy is set to Webhook")
    if strategy == "Webhook" and not texts(webhook, "conversionReviewVersions"):
        yield required("spec.conversion.conversionReviewVersions")
    if strategy != "Webhook" and webhook:
        yield forbidden("spec.conversion.webhookClientConfig", "should not be set when strategy is not set to Webhook")


def _check_immutable(new: Object, old: Object) -> Iterator[FieldError]:
    before, after = spec_of(old), spec_of(new)
    pairs = [("group", before.get("group"), after.get("group"))]
    pairs.append(("names.plural", names_of(old).get("plural"), names_of(new).get("plural")))
    if is_established(old):
        pairs.append(("scope", before.get("scope"), after.get("scope")))
        pairs.append(("names.kind", names_of(old).get("kind"), names_of(new).get("kind")))
    for path, was, now in pairs:
        if was != now:
            yield invalid(f"spec.{path}", now, IMMUTABLE)


def _check_stored_versions(definition: Object) -> Iterator[FieldError]:
    path, stored = "status.storedVersions", texts(status_of(definition), "storedVersions")
    if not stored:
        yield invalid(path, None, "must have at least one stored version")
        return
    for version in versions_of(definition):
        name = text(version, "name")
        if version.get("storage") and name not in stored:
            yield invalid(path, list(stored), f"must have the storage version {name}")
    known = {text(version, "name") for version in versions_of(definition)}
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, "
                "and must remain in spec.versions until a storage migration ensures "
                f"no data remains persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, detail)


def _check_approval(new: Object, old: Object | None) -> Iterator[FieldError]:
    group, said = text(spec_of(new), "group"), annotations_of(new).get(API_APPROVED) or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    if old is not None and (annotations_of(old).get(API_APPROVED) or "") == said:
        return
    path = f"metadata.annotations[{API_APPROVED}]"
    if not said:
        yield required(path, f'protected groups must have approval annotation "{API_APPROVED}", {_SEE}')
    elif not said.startswith("unapproved") and not _is_url(said):
        detail = (
            f'protected groups must have approval annotation "{API_APPROVED}" '
            f'with either a URL or a reason starting with "unapproved", {_SEE}'
        )
        yield invalid(path, said, detail)


def _is_url(said: str) -> bool:
    try:
        parts = urlsplit(said)
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc)
