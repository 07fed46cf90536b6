"""What a Role and a binding must look like to be stored."""

from collections.abc import Iterator

from watchword.api.meta import Object
from watchword.api.resources import RBAC_GROUP
from watchword.apiserver.kinds.metadata import selector_errors
from watchword.apiserver.serving.field_errors import invalid, not_supported, required
from watchword.apiserver.serving.model import FieldError, Operation


def default_binding(operation: Operation) -> None:
    """Fill the API groups that a binding may leave out."""
    if operation.new is None:
        return
    ref = operation.new.get("roleRef")
    if isinstance(ref, dict) and not ref.get("apiGroup"):
        ref["apiGroup"] = RBAC_GROUP
    for subject in operation.new.get("subjects") or ():
        if subject.get("kind") in {"User", "Group"} and not subject.get("apiGroup"):
            subject["apiGroup"] = RBAC_GROUP


def prepare_role(operation: Operation) -> None:
    """Store missing rules as null: an empty list does not survive storage."""
    if operation.new is not None and operation.new.get("rules") == []:
        operation.new["rules"] = None


def validate_role(operation: Operation) -> list[FieldError]:
    role = operation.new or {}
    namespaced = operation.kind.resource.namespaced
    found = [
        error
        for index, rule in enumerate(role.get("rules") or ())
        for error in _rule_errors(rule, f"rules[{index}]", namespaced=namespaced)
    ]
    aggregation = role.get("aggregationRule")
    if aggregation is not None and not aggregation.get("clusterRoleSelectors"):
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        found.append(required("aggregationRule.clusterRoleSelectors", detail))
    for index, selector in enumerate((aggregation or {}).get("clusterRoleSelectors") or ()):
        path = f"aggregationRule.clusterRoleSelectors[{index}]"
        wrong = list(selector_errors(selector, path))
        found.extend([*wrong, invalid(path, None, "invalid label selector.")] if wrong else ())
    return found


def _rule_errors(rule: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, detail)
        if rule.get("apiGroups") or rule.get("resources") or rule.get("resourceNames"):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            yield invalid(f"{path}.nonResourceURLs", urls, detail)
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def validate_binding(operation: Operation) -> list[FieldError]:
    binding = operation.new or {}
    namespaced = operation.kind.resource.namespaced
    found = list(_role_ref_errors(binding.get("roleRef") or {}, namespaced=namespaced))
    for index, subject in enumerate(binding.get("subjects") or ()):
        found.extend(_subject_errors(subject, f"subjects[{index}]", namespaced=namespaced))
    if operation.old is not None and operation.old.get("roleRef") != binding.get("roleRef"):
        ref = binding.get("roleRef") or {}
        # The message shows the server's own spelling of the fields, not the wire's.
        names = {"APIGroup": "apiGroup", "Kind": "kind", "Name": "name"}
        shown = {name: ref.get(field) or "" for name, field in names.items()}
        found.append(invalid("roleRef", shown, "cannot change roleRef"))
    return found


def _role_ref_errors(ref: Object, *, namespaced: bool) -> Iterator[FieldError]:
    if ref.get("apiGroup") != RBAC_GROUP:
        yield not_supported("roleRef.apiGroup", ref.get("apiGroup") or "", [RBAC_GROUP])
    kinds = ["Role", "ClusterRole"] if namespaced else ["ClusterRole"]
    if ref.get("kind") not in kinds:
        yield not_supported("roleRef.kind", ref.get("kind") or "", kinds)
    if not ref.get("name"):
        yield required("roleRef.name")


def _subject_errors(subject: Object, path: str, *, namespaced: bool) -> Iterator[FieldError]:
    if not subject.get("name"):
        yield required(f"{path}.name")
    group = subject.get("apiGroup") or ""
    match subject.get("kind"):
        case "ServiceAccount":
            if group:
                yield not_supported(f"{path}.apiGroup", group, [""])
            if not namespaced and not subject.get("namespace"):
                yield required(f"{path}.namespace")
        case "User" | "Group":
            if group != RBAC_GROUP:
                yield not_supported(f"{path}.apiGroup", group, [RBAC_GROUP])
        case other:
            yield not_supported(f"{path}.kind", other or "", ["ServiceAccount", "User", "Group"])
