"""What happens to a CustomResourceDefinition on its way to the store: defaults, status and validation.

Schemas are read leniently (`schema.from_openapi`): one that is not structural is stored, which kube-apiserver refuses.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Final

import orjson

from watchword.api.meta import Object, finalizers_of
from watchword.api.time import parse_rfc3339
from watchword.apiserver.crd.definition import (
    CLEANUP_FINALIZER,
    PENDING,
    SCHEMAS_REMEMBERED,
    is_established,
    names_of,
    openapi_of,
    places,
    spec_of,
    status_of,
    storage_version,
    validate_names,
    versions_of,
    with_conditions,
)
from watchword.apiserver.kinds.from_openapi import Node, nodes_of, objects, text, texts
from watchword.apiserver.kinds.metadata import IMMUTABLE, dns1035_label, dns_subdomain
from watchword.apiserver.serving.field_errors import invalid, not_supported, required
from watchword.apiserver.serving.model import FieldError, Operation
from watchword.cel.evaluate import compile_expression
from watchword.cel.re2_patterns import is_pattern
from watchword.cel.syntax import CelSyntaxError

_SCOPES: Final = ("Cluster", "Namespaced")
_TYPES: Final = ("array", "boolean", "integer", "number", "object", "string")


def default_definition(definition: Object) -> None:
    spec, names = spec_of(definition), names_of(definition)
    kind = text(names, "kind")
    if not text(names, "singular"):
        names["singular"] = kind.lower()
    if not text(names, "listKind") and kind:
        names["listKind"] = f"{kind}List"
    if spec.get("conversion") is None:
        spec["conversion"] = {"strategy": "None"}


def prepare_definition(operation: Operation) -> None:
    """Initialize the status of a new definition; record every version that objects were stored in."""
    new = operation.new
    if new is None or operation.subresource:
        return
    if operation.old is None:
        new["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": None}
    status, storage = status_of(new), storage_version(new)
    stored = list(texts(status, "storedVersions"))
    if storage and storage not in stored:
        new["status"] = {**status, "storedVersions": [*stored, storage]}


def validate_definition(operation: Operation) -> list[FieldError]:
    """Validate a definition; what the status endpoint writes is the control plane's own."""
    if operation.new is None or operation.subresource:
        return []
    return definition_errors(operation.new, operation.old)


def mark_terminating(definition: Object) -> None:
    """Keep a definition, in place, until its objects are deleted; deletion does not change its spec."""
    metadata = definition["metadata"]
    metadata.pop("deletionGracePeriodSeconds", None)
    if metadata.get("generation"):
        metadata["generation"] -= 1
    since = parse_rfc3339(text(metadata, "deletionTimestamp"))
    if since is not None:
        definition["status"] = with_conditions(status_of(definition), [PENDING], since)
    if CLEANUP_FINALIZER not in finalizers_of(definition):
        metadata["finalizers"] = [*finalizers_of(definition), CLEANUP_FINALIZER]


def definition_errors(new: Object, old: Object | None = None) -> list[FieldError]:
    """Return every broken rule of a definition; with `old`, of its change."""
    found = [] if old is not None else list(_check_name(new))
    found.extend(_check_spec(new))
    found.extend(_check_expressions(new, old))
    if old is not None:
        found.extend(_check_immutable(new, old))
    found.extend(_check_stored_versions(new))
    return found


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
    yield from _check_versions(definition)
    yield from validate_names(names_of(definition), "spec.names")


def _check_versions(definition: Object) -> Iterator[FieldError]:
    versions = versions_of(definition)
    for index, version in enumerate(versions):
        place = f"spec.versions[{index}]"
        if openapi_of(version) is None:
            yield required(f"{place}.schema.openAPIV3Schema")
        complaints = ",".join(dns1035_label(text(version, "name")))
        if complaints:
            yield invalid(f"{place}.name", text(version, "name"), complaints)
    for place, version in places(definition, "schema", "validation"):
        openapi = openapi_of(version)
        if openapi is not None:
            yield from _schema_errors(orjson.dumps(openapi), f"{place}.openAPIV3Schema")
    names = [text(version, "name") for version in versions]
    if len(set(names)) < len(names):
        yield invalid("spec.versions", versions, "must contain unique version names")
    if sum(version.get("storage") is True for version in versions) != 1:
        yield invalid("spec.versions", versions or None, "must have exactly one version marked as storage version")


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def _schema_errors(document: bytes, path: str) -> tuple[FieldError, ...]:
    """Return what would be misread: a type that is none, a pattern that is none."""
    openapi = orjson.loads(document)
    found: list[FieldError] = []
    if text(openapi, "type") != "object":
        wrong = invalid(f"{path}.type", text(openapi, "type"), "must be object at the root")
        found.append(wrong if text(openapi, "type") else required(f"{path}.type", "must not be empty at the root"))
    for place, node in nodes_of(openapi, path):
        kind, pattern = text(node, "type"), text(node, "pattern")
        if kind and kind not in _TYPES:
            found.append(not_supported(f"{place}.type", kind, _TYPES))
        if pattern and not is_pattern(pattern):
            found.append(invalid(f"{place}.pattern", pattern, "must be a valid regular expression, but isn't"))
    return tuple(found)


def _check_expressions(new: Object, old: Object | None) -> Iterator[FieldError]:
    """Yield the expressions that do not compile, unless they are stored already."""
    for place, version in places(new, "schema", "validation"):
        openapi = openapi_of(version)
        broken = _expression_errors(orjson.dumps(openapi), f"{place}.openAPIV3Schema") if openapi is not None else ()
        stored = [openapi_of(each) for each in versions_of(old)] if broken and old is not None else []
        accepted = {each for schema in stored if schema is not None for _, each in _expressions_of(schema)}
        yield from (error for expression, error in broken if expression not in accepted)


@lru_cache(maxsize=SCHEMAS_REMEMBERED)
def _expression_errors(document: bytes, path: str) -> tuple[tuple[str, FieldError], ...]:
    found = list[tuple[str, FieldError]]()
    for place, expression in _expressions_of(orjson.loads(document), path):
        if not expression.strip():
            if place.endswith(".rule"):
                found.append((expression, required(place, "rule is not specified")))
            continue
        try:
            compile_expression(expression)
        except CelSyntaxError as error:
            found.append((expression, invalid(place, expression, f"compilation failed: {error}")))
    return tuple(found)


def _expressions_of(openapi: Node, path: str = "") -> Iterator[tuple[str, str]]:
    for place, node in nodes_of(openapi, path):
        for index, rule in enumerate(objects(node, "x-kubernetes-validations")):
            for key in ("rule", "messageExpression"):
                yield f"{place}.x-kubernetes-validations[{index}].{key}", text(rule, key)


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
    known = {text(version, "name") for version in versions_of(definition)}
    for index, name in enumerate(stored):
        if name not in known:
            detail = (
                f"missing from spec.versions; {name} was previously a storage version, "
                "and must remain in spec.versions until a storage migration ensures "
                f"no data remains persisted in {name} and removes {name} from status.storedVersions"
            )
            yield invalid(f"{path}[{index}]", name, detail)
