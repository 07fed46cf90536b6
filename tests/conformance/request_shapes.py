"""Request shapes as data: the rows of a scenario file, one per request."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct, field

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
PATCHES = {
    "MERGE": "application/merge-patch+json",
    "JSONPATCH": "application/json-patch+json",
    "STRATEGIC": "application/strategic-merge-patch+json",
    "APPLY": "application/apply-patch+yaml",
}
READS = {"TABLE": TABLE, "PARTIAL": PARTIAL}


class Shape(Struct, frozen=True):
    """One request; `<ns>` and every stored name stand for values that differ from run to run."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str = ""  # a body that is not JSON
    hex: str = ""  # a body that is not text
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    user: str = ""  # impersonated by the administrator; "anonymous" sends no credential
    token: str = ""  # a bearer token instead of the administrator's certificate
    keep: Mapping[str, str] = field(default_factory=dict)  # name -> dotted path in the response
    until: int = 0  # send again, for a while, until the response has this code: servers need time to observe changes
    settle: str = ""  # send again, for a while, until the response contains this text
    events: int = 0  # leave a watch after so many events
    during: tuple[Shape, ...] = ()  # sent while the watch is open; their responses are not compared
    among: tuple[str, ...] = ()  # compare only these entries of long lists
    hide: tuple[str, ...] = ()  # dotted paths whose values differ between any two servers


class Scenario(Struct, frozen=True):
    """Shapes in order, in a namespace of their own, with the controllers that they need."""

    name: str
    shapes: tuple[Shape, ...]
    controllers: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict)  # long constants, written as <name>


USUAL_KEEP = {"rv": "metadata.resourceVersion", "uid": "metadata.uid", "continue": "metadata.continue"}


def read_scenario(path: Path) -> Scenario:
    """Read a YAML file of shapes; their names must be unique."""
    data = yaml.load(path.read_text(), yaml.CSafeLoader)
    data = {"shapes": data} if isinstance(data, list) else data
    shapes = tuple(read_shape(row) for row in data["shapes"])
    names = [shape.name for shape in shapes]
    assert len(set(names)) == len(names), f"{path.name} names a shape twice"
    return Scenario(path.stem, shapes, tuple(data.get("controllers", ())), data.get("values", {}))


def read_shape(row: dict[str, Any]) -> Shape:
    """Read one row: `do` contains a method or the name of a kind of patch or read, and a path."""
    row = dict(row)
    word, _, path = row.pop("do").partition(" ")
    headers, query = dict(row.pop("headers", {})), dict(row.pop("query", {}))
    if word in PATCHES:
        headers["Content-Type"], word = PATCHES[word], "PATCH"
    elif word in READS:
        headers["Accept"], word = READS[word], "GET"
    elif word == "WATCH":
        query, word = {"watch": "true", "timeoutSeconds": "1", **query}, "GET"
    keep = row.pop("keep", {})
    return Shape(
        row.pop("name", ""),
        word,
        path,
        query=query,
        headers=headers,
        user=row.pop("as", ""),
        keep=USUAL_KEEP if keep is True else keep,
        during=tuple(read_shape(inner) for inner in row.pop("during", ())),
        among=tuple(row.pop("among", ())),
        hide=tuple(row.pop("hide", ())),
        **row,
    )
