"""Which requests a ValidatingAdmissionPolicy or its binding is about: the matchConstraints of both."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey, Resource, labels_of
from watchword.api.resources import NAMESPACES
from watchword.api.selectors import LabelSelector, SelectorError, parse_structured_selector
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.model import Operation, Registry, ResourceKind
from watchword.apiserver.serving.object_storage import bucket_of, convert


class AdmissionAttributes(Struct, frozen=True):
    """One write as policies see it, in the version of the resource that they name."""

    operation: str  # CREATE, UPDATE or DELETE
    resource: Resource
    subresource: str
    namespace: str  # of a namespace: its own name
    name: str
    object: Object | None
    old: Object | None

    @property
    def is_namespace(self) -> bool:
        return (self.resource.group, self.resource.plural) == ("", NAMESPACES.plural)


def read_attributes(operation: Operation) -> AdmissionAttributes:
    resource, key = operation.kind.resource, operation.key
    is_namespace = (resource.group, resource.plural) == ("", NAMESPACES.plural)
    new, old = operation.new, operation.old
    if operation.subresource == "scale":
        from watchword.apiserver.serving.resources import scale_of

        new, old = (None if obj is None else scale_of(obj) for obj in (new, old))
    return AdmissionAttributes(
        operation=operation.verb.upper(),
        resource=resource,
        subresource=operation.subresource,
        namespace=key.name if is_namespace else key.namespace,
        name=key.name,
        object=new,
        old=old,
    )


class ResourceRule(Struct, frozen=True, rename="camel"):
    """One entry of resourceRules or excludeResourceRules."""

    operations: frozenset[str] = frozenset()
    api_groups: frozenset[str] = frozenset()
    api_versions: frozenset[str] = frozenset()
    resources: tuple[str, ...] = ()  # `resource` or `resource/subresource`, either may be `*`
    scope: str = "*"
    resource_names: frozenset[str] = frozenset()

    def concerns(self, request: AdmissionAttributes) -> bool:
        """Whether it is about the request, whatever its group and version; asked for every write."""
        plural, subresource = request.resource.plural, request.subresource
        for text in self.resources:
            resource, _, below = text.partition("/")
            if resource in (plural, "*") and below in (subresource, "*"):
                break
        else:
            return False
        if not self.operations & {request.operation, "*"} or (
            self.resource_names and request.name not in self.resource_names
        ):
            return False
        return self.scope == "*" or (self.scope == "Cluster") is (request.is_namespace or not request.namespace)

    def covers(self, resource: Resource) -> bool:
        return bool(self.api_groups & {resource.group, "*"} and self.api_versions & {resource.version, "*"})


class MatchResources(Struct, frozen=True):
    """The requests that a policy or a binding is about; without rules all of them."""

    rules: tuple[ResourceRule, ...]
    excluded: tuple[ResourceRule, ...]
    namespaces: LabelSelector
    objects: LabelSelector
    is_exact: bool

    @classmethod
    def read(cls, spec: Object) -> MatchResources:
        return cls(
            rules=msgspec.convert(spec.get("resourceRules") or (), tuple[ResourceRule, ...]),
            excluded=msgspec.convert(spec.get("excludeResourceRules") or (), tuple[ResourceRule, ...]),
            namespaces=_read_selector(spec.get("namespaceSelector")),
            objects=_read_selector(spec.get("objectSelector")),
            is_exact=spec.get("matchPolicy") == "Exact",
        )


def _read_selector(structure: Object | None) -> LabelSelector:
    """Read a selector; one that is invalid selects everything, so that the policy is in force."""
    try:
        return parse_structured_selector(structure or {})
    except SelectorError:
        return LabelSelector()


def find_matching_request(
    registry: Registry, match: MatchResources, operation: Operation, request: AdmissionAttributes
) -> AdmissionAttributes | None:
    """Return the request in the version that the rules name; None when they are not about it."""
    kind = operation.kind

    def covered(rules: Sequence[ResourceRule]) -> ResourceKind | None:
        concerned = [rule for rule in rules if rule.concerns(request)]
        if any(rule.covers(request.resource) for rule in concerned):
            return kind
        if match.is_exact or not concerned:
            return None
        others = (other for other in registry.kinds() if other is not kind and bucket_of(other) == bucket_of(kind))
        return next((other for other in others if any(rule.covers(other.resource) for rule in concerned)), None)

    found = covered(match.rules) if match.rules else kind
    if found is None or not _selects_object(match.objects, request) or covered(match.excluded) is not None:
        return None
    if not _selects_namespace(registry, match.namespaces, request):
        return None
    return request if found is kind else _converted(request, kind, found)


def _selects_namespace(registry: Registry, selector: LabelSelector, request: AdmissionAttributes) -> bool:
    if not selector.requirements or not request.namespace:
        return True
    if request.is_namespace and request.object is not None and not request.subresource:
        return selector.matches(labels_of(request.object))
    namespace = registry.get(NAMESPACES, ObjectKey.cluster(request.namespace))
    if namespace is None:
        raise errors.not_found(NAMESPACES, request.namespace)
    return selector.matches(labels_of(namespace))


def _selects_object(selector: LabelSelector, request: AdmissionAttributes) -> bool:
    if not selector.requirements:
        return True
    return any(obj is not None and selector.matches(labels_of(obj)) for obj in (request.object, request.old))


def _converted(request: AdmissionAttributes, kind: ResourceKind, other: ResourceKind) -> AdmissionAttributes:
    new, old = (None if obj is None else convert(obj, kind, other) for obj in (request.object, request.old))
    return replace(request, resource=other.resource, object=new, old=old)
