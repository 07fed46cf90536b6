"""The tables against themselves, and against the Kubernetes sources when they are at hand."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from watchword.apiserver.kinds.messages import Field, Message, messages, read_tables, schemas
from watchword.testing.kube_apiserver_backend import KUBERNETES_VERSION

_LIBRARIES = KUBERNETES_VERSION.replace("v1.", "v0.")  # the modules of a release; others may lie beside them
_PACKAGES = {
    "io.k8s.api.": f"k8s.io/api@{_LIBRARIES}/",
    "io.k8s.apiextensions-apiserver.": f"k8s.io/apiextensions-apiserver@{_LIBRARIES}/",
    "io.k8s.apimachinery.": f"k8s.io/apimachinery@{_LIBRARIES}/",
}
_SPECIAL = {
    "Time": "time",
    "MicroTime": "microtime",
    "Quantity": "quantity",
    "IntOrString": "intstr",
    "RawExtension": "json",
    "JSON": "json",
    "FieldsV1": "json",
    "ExtraValue": "strings",
    "JSONSchemaPropsOrArray": "schemaOrArray",
    "JSONSchemaPropsOrBool": "schemaOrBool",
    "JSONSchemaPropsOrStringArray": "schemaOrStrings",
}


def _module_cache() -> Path:
    return Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")


def _proto(package: str) -> Path | None:
    for prefix, module in _PACKAGES.items():
        if package.startswith(prefix):
            below = package.removeprefix(prefix).replace(".", "/")
            found = sorted(_module_cache().glob(f"{module}{below}/generated.proto"))
            return found[-1] if found else None
    return None


def _upstream(path: Path) -> dict[str, dict[int, tuple[str, str, str]]]:
    """Return number to name, type and shape, by message."""
    found: dict[str, dict[int, tuple[str, str, str]]] = {}
    current: dict[int, tuple[str, str, str]] = {}
    for line in path.read_text().splitlines():
        text = line.strip()
        if match := re.fullmatch(r"message (\w+) \{", text):
            current = found.setdefault(match[1], {})
        elif match := re.fullmatch(r"(optional|repeated)?\s*(?:map<string, )?([\w.]+)(>)? (\w+) = (\d+);", text):
            shape = "map" if match[3] else "list" if match[1] == "repeated" else ""
            current[int(match[5])] = (match[4], match[2].rpartition(".")[2], shape)
    return found


def _flat(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _differences(message: Message, upstream: dict[int, tuple[str, str, str]]) -> Iterator[str]:
    for each in message.fields:
        name, kind, shape = upstream.get(each.number, ("", "", ""))
        if not each.inline and _flat(name) != _flat(each.name):
            yield f"{message.name} {each.number}: {each.name} is {name!r} upstream"
        if _SPECIAL.get(kind, kind) != each.type.rpartition(".")[2] or shape != each.shape:
            yield f"{message.name} {each.number}: {each.type} {each.shape} is {kind} {shape} upstream"


@pytest.mark.parametrize("package", sorted({name.rpartition(".")[0] for name in messages().written}))
def test_every_number_name_and_type_is_the_one_of_kubernetes(package: str) -> None:
    proto = _proto(package)
    if proto is None:
        pytest.skip(f"no generated.proto of {package} under GOMODCACHE: run `go mod download k8s.io/api`")

    upstream = _upstream(proto)
    ours = [messages()[name] for name in messages().written if name.rpartition(".")[0] == package]
    differences = [text for each in ours for text in _differences(each, upstream[each.name.rpartition(".")[2]])]

    assert differences == []


def test_no_message_uses_a_number_or_name_twice() -> None:
    for message in (messages()[name] for name in messages().written):
        assert len(message.by_number) == len(message.fields), message.name
        names = [each.name for each in messages().json_fields(message.name)]
        assert len(names) == len(set(names)), message.name


def test_table_row_describes_a_field_completely() -> None:
    line = "  7 parts []Part ! map=name merge=name ; its parts"
    table = f"package p.v1\nThing atomic ; a thing\n{line}\nPart\n  1 n *int32 +\n"

    thing = read_tables([table])["p.v1.Thing"]

    assert (thing.atomic, thing.description) == (True, "a thing")
    assert thing.fields == (
        Field(
            number=7,
            name="parts",
            type="p.v1.Part",
            shape="list",
            required=True,
            list_type="map",
            list_map_keys=("name",),
            patch_strategy="merge",
            patch_merge_key="name",
            description="its parts",
        ),
    )


def test_a_table_that_mentions_an_unknown_message_is_refused() -> None:
    with pytest.raises(KeyError, match="no table describes Part"):
        read_tables(["package p.v1\nThing\n  1 parts []Part\n"])["p.v1.Thing"]


def test_schemas_know_how_lists_and_maps_are_merged() -> None:
    pod = schemas().of_message("io.k8s.api.core.v1.PodSpec").properties
    metadata = schemas().of_message("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").properties

    assert (pod["containers"].list_type, pod["containers"].list_map_keys) == ("map", ("name",))
    assert (pod["volumes"].patch_strategy, pod["volumes"].patch_merge_key) == ("merge,retainKeys", "name")
    assert pod["nodeSelector"].map_type == "atomic"
    assert (metadata["finalizers"].list_type, metadata["finalizers"].patch_strategy) == ("set", "merge")
    assert (metadata["ownerReferences"].list_map_keys, metadata["labels"].map_type) == (("uid",), "granular")


def test_a_schema_of_schemas_contains_itself() -> None:
    schema = schemas().of_message("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps")

    assert schema.properties["not"].properties is schema.properties
