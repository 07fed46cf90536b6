"""Untrusted input: arbitrary bytes, and real requests with a defect."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

NAMES = ("a", "metadata", "name", "spec", "data", "labels", "kind", "apiVersion", "$patch", "items", "", "\x00", "a/b")
texts = st.one_of(st.sampled_from(NAMES), st.text(max_size=12))
numbers = st.one_of(
    st.integers(), st.sampled_from([2**31, 2**63, -(2**63), 10**19]), st.floats(allow_nan=False, allow_infinity=False)
).filter(lambda number: -(2**63) <= number < 2**64)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(texts, inner, max_size=4)),
    max_leaves=12,
)
media = st.sampled_from(
    [
        "application/json",
        "application/yaml",
        "application/vnd.kubernetes.protobuf",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "text/plain",
        "",
        "application/json;charset=x;;=",
    ]
)
accepts = st.sampled_from(
    [
        "application/json",
        "*/*",
        "application/yaml",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        "application/vnd.kubernetes.protobuf",
        ";;;=,",
    ]
)
queries = st.dictionaries(
    st.sampled_from(
        [
            *(
                "watch",
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "labelSelector",
                "fieldSelector",
            ),
            *(
                "sendInitialEvents",
                "allowWatchBookmarks",
                "timeoutSeconds",
                "dryRun",
                "fieldManager",
                "fieldValidation",
            ),
            *("force", "propagationPolicy", "gracePeriodSeconds", "pretty", "timeout", "includeObject", "verbose"),
        ]
    ),
    st.one_of(
        st.sampled_from(["", "0", "1", "true", "All", "Strict", "Foreground", "Exact", "NotOlderThan"]),
        st.text(max_size=20),
    ),
    max_size=4,
)
segments = st.one_of(
    st.sampled_from(
        [
            *("api", "apis", "v1", "apps", "namespaces", "default", "configmaps", "secrets", "pods", "status", "scale"),
            *("watch", "token", "serviceaccounts", "rbac.authorization.k8s.io", "roles", "finalize", "approval"),
            *("apiextensions.k8s.io", "customresourcedefinitions", "openapi", "v3", "healthz", "..", "%2f", "%00", "%"),
        ]
    ),
    st.text(max_size=8),
)
paths = st.lists(segments, max_size=8).map(lambda parts: "/" + "/".join(parts))
methods = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "FROB", ""])


@st.composite
def mutated(draw: st.DrawFn, document: Any) -> Any:
    """Return a document in which a few places hold something else, or nothing."""
    document = deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        document = _changed(draw, document)
    return document


def _changed(draw: st.DrawFn, document: Any) -> Any:
    places = list(_places(document, ()))
    if not places:
        return draw(values)
    *above, last = draw(st.sampled_from(places))
    holder = document
    for step in above:
        holder = holder[step]
    if draw(st.booleans()):
        holder[last] = draw(values)
    elif isinstance(holder, dict):
        holder[draw(texts)] = holder.pop(last)
    else:
        holder.append(holder[last])
    return document


def _places(value: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(value, dict):
        for key, item in value.items():
            yield (*path, key)
            yield from _places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield (*path, index)
            yield from _places(item, (*path, index))
