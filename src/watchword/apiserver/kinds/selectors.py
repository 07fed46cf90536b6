"""Label selectors of workloads: are they well formed, what do they match, how do they print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from watchword.api.meta import Object
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.metadata import label_errors
from watchword.apiserver.kinds.names import label_value, qualified_name
from watchword.apiserver.model import FieldError


def selector_errors(selector: Object, path: str) -> Iterator[FieldError]:
    """Validate labels and requirements of a selector."""
    yield from label_errors(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        yield from _requirement_errors(requirement, f"{path}.matchExpressions[{index}]")


def _requirement_errors(requirement: Object, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator") or "", requirement.get("values") or []
    if operator in ("In", "NotIn"):
        if not values:
            yield broken.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield broken.forbidden(f"{path}.values", detail)
    else:
        yield broken.invalid(f"{path}.operator", operator, "not a valid selector operator")
    key = requirement.get("key") or ""
    yield from (broken.invalid(f"{path}.key", key, complaint) for complaint in qualified_name(key))
    for index, value in enumerate(values):
        yield from (broken.invalid(f"{path}.values[{index}]", value, complaint) for complaint in label_value(value))


def is_selected(labels: Mapping[str, str], selector: Object) -> bool:
    """Whether labels satisfy every part of a well-formed selector."""
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_satisfies(labels, requirement) for requirement in selector.get("matchExpressions") or ())


def _satisfies(labels: Mapping[str, str], requirement: Object) -> bool:
    key, values = requirement.get("key"), requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return labels.get(key or "") in values
        case "NotIn":
            return labels.get(key or "") not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels


def printed_selector(selector: Object | None) -> str:
    """Write a selector as `kubectl` shows it."""
    selector = selector or {}
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for requirement in selector.get("matchExpressions") or ():
        key, values = requirement.get("key") or "", sorted(requirement.get("values") or [])
        listed = ",".join(values)
        words = {
            "In": f"{key} in ({listed})",
            "NotIn": f"{key} notin ({listed})",
            "Exists": key,
            "DoesNotExist": f"!{key}",
        }
        parts.append((key, words.get(requirement.get("operator") or "", key)))
    return ",".join(text for _, text in sorted(parts))
