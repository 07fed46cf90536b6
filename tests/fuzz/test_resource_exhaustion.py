"""Small requests that mean a lot of work are refused, or done, within a bounded time and memory."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import orjson
import pytest
from tests.fuzz.conftest import Target

from watchword.api.http import Request

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MOST_MEMORY = 160 * 1024 * 1024  # a body of 3 MiB may hold half a million values
MOST_SECONDS = 4.0  # of the processor, measured while memory is traced, which is slow


@contextmanager
def a_budget() -> Iterator[None]:
    tracemalloc.start()
    begin = time.process_time()
    try:
        yield
        spent = time.process_time() - begin
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spent < MOST_SECONDS, f"took {spent:.1f} seconds"
    assert peak < MOST_MEMORY, f"took {peak // 1024} KiB"


def aliases() -> bytes:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]".encode() for i in range(1, 9)]
    return b"\n".join(lines)


def doubling() -> bytes:
    grow = [{"op": "copy", "from": "/data", "path": f"/data/n{i}"} for i in range(64)]
    return orjson.dumps([{"op": "add", "path": "/data", "value": {"a": "x" * 1000}}, *grow])


@pytest.mark.parametrize(
    ("media", "body"),
    [
        pytest.param(YAML, aliases(), id="aliases of aliases"),
        pytest.param(JSON, b"[" * 1_000_000, id="a million open brackets"),
        pytest.param(JSON, b'{"a":' * 300_000 + b"1" + b"}" * 300_000, id="objects in objects"),
        pytest.param(YAML, b"[" * 100_000, id="open brackets in yaml"),
        pytest.param(YAML, b"- " * 100_000, id="lists of lists in yaml"),
        pytest.param(YAML, b"? " * 20_000, id="keys of keys in yaml"),
        pytest.param(JSON, b'{"data":{"a":' + b"9" * 1_000_000 + b"}}", id="a number of a million digits"),
        pytest.param(YAML, b"a: " + b"9" * 100_000, id="a number of many digits in yaml"),
        pytest.param(JSON, b'{"data":{"a":1e999999999}}', id="an exponent"),
        pytest.param(YAML, b"a: !!python/object/apply:os.system [id]", id="a tag that would run"),
        pytest.param(YAML, b"a: !!binary " + b"A" * 100_000, id="binary in yaml"),
        pytest.param(PROTOBUF, b"k8s\x00" + b"\x12\xff\xff\xff\xff\x0f" * 1000, id="lengths beyond the end"),
        pytest.param(PROTOBUF, b"k8s\x00" + b"\x0a\x7f" * 50_000, id="messages in messages"),
        pytest.param(JSON, b"{" + b",".join(b'"%d":1' % i for i in range(200_000)) + b"}", id="many unknown fields"),
        pytest.param(JSON, b"{ " + b", ".join(b'"%d" : 1' % i for i in range(200_000)) + b"}", id="loosely written"),
    ],
)
def test_bodies(target: Target, media: str, body: bytes) -> None:
    with a_budget():
        answer = target.ask(Request("POST", CONFIG_MAPS, headers=(("Content-Type", media),), body=body))

    assert 400 <= answer.status < 500


@pytest.mark.parametrize(
    ("language", "body"),
    [
        pytest.param("json-patch+json", doubling(), id="copies that double"),
        pytest.param(
            "json-patch+json", b'[{"op":"add","path":"' + b"/a" * 100_000 + b'","value":1}]', id="a long pointer"
        ),
        pytest.param("json-patch+json", b"[" + b'{"op":"test","path":""},' * 20_000 + b"{}]", id="many operations"),
        pytest.param("merge-patch+json", b'{"data":' * 50_000 + b"1" + b"}" * 50_000, id="a deep merge"),
        pytest.param("strategic-merge-patch+json", b'{"data":' * 50_000 + b"1" + b"}" * 50_000, id="a deep strategy"),
        pytest.param("apply-patch+yaml", aliases(), id="aliases in an apply"),
    ],
)
def test_patches(target: Target, language: str, body: bytes) -> None:
    made = orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "victim"}, "data": {"a": "b"}})
    target.ask(Request("POST", CONFIG_MAPS, body=made))
    headers = (("Content-Type", f"application/{language}"),)

    with a_budget():
        answer = target.ask(Request("PATCH", f"{CONFIG_MAPS}/victim", (("fieldManager", "m"),), headers, body))

    assert 400 <= answer.status < 500


# Longer ones do not come through: the listener bounds a request's first line to 64 KiB.
@pytest.mark.parametrize(
    "query",
    [
        pytest.param({"labelSelector": "a," * 30_000}, id="many labels"),
        pytest.param({"labelSelector": "a in (" + "x," * 30_000 + "y)"}, id="a large set"),
        pytest.param({"labelSelector": "(" * 60_000}, id="open brackets"),
        pytest.param({"fieldSelector": "metadata.name=" + "\\" * 60_001}, id="escapes without end"),
        pytest.param({"fieldSelector": "a=b," * 15_000}, id="many fields"),
        pytest.param({"continue": "A" * 60_000}, id="a long continue token"),
        pytest.param({"resourceVersion": "9" * 60_000}, id="a long revision"),
        pytest.param({"limit": "9" * 60_000}, id="a long limit"),
        pytest.param({"timeout": "1" * 60_000 + "x"}, id="a long timeout"),
    ],
)
def test_queries(target: Target, query: dict[str, str]) -> None:
    with a_budget():
        target.ask(Request("GET", CONFIG_MAPS, tuple(query.items())))


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        pytest.param("^(a+)+$", "a" * 40 + "!", id="nested repetition"),
        pytest.param("^(a|aa)+$", "a" * 60 + "!", id="ambiguous choice"),
        pytest.param("^(.*a){20}$", "a" * 60 + "!", id="greedy groups"),
        pytest.param("(x+x+)+y", "x" * 60, id="two repetitions"),
    ],
)
def test_patterns_of_definitions_cannot_stop_the_server(target: Target, pattern: str, text: str) -> None:
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": pattern}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "slows", "kind": "Slow"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    definition = {**head, "metadata": {"name": "slows.example.com"}, "spec": spec}
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    target.ask(Request("POST", crds, body=orjson.dumps(definition)))
    slow = {"apiVersion": "example.com/v1", "kind": "Slow", "metadata": {"name": "s"}, "spec": text}

    with a_budget():
        target.ask(Request("POST", "/apis/example.com/v1/slows", body=orjson.dumps(slow)))

    target.ask(Request("DELETE", f"{crds}/slows.example.com"))
