"""Untrusted bodies are parsed exactly or refused."""

from __future__ import annotations

import contextlib
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.apiserver.serving.bodies import JSON, PROTOBUF, YAML, decode, duplicate_fields
from watchword.apiserver.serving.model import ApiError

BOMB = b"""
a: &a [x, x, x, x, x, x, x, x, x]
b: &b [*a, *a, *a, *a, *a, *a, *a, *a, *a]
c: [*b, *b, *b, *b, *b, *b, *b, *b, *b]
"""


@pytest.mark.parametrize(
    ("body", "media", "code"),
    [
        pytest.param(b"", JSON, 400, id="nothing"),
        pytest.param(b"{", JSON, 400, id="half an object"),
        pytest.param(b"[]", JSON, 400, id="a list"),
        pytest.param(b'{"a":NaN}', JSON, 400, id="not a number"),
        pytest.param(b'{"a":' * 300 + b"1" + b"}" * 300, JSON, 400, id="nested beyond reason"),
        pytest.param(b"[" * 100_000, JSON, 400, id="nested beyond the parser"),
        pytest.param(b" " * (3 * 1024 * 1024 + 1), JSON, 413, id="too large"),
        pytest.param(BOMB, YAML, 400, id="alias bomb"),
        pytest.param(b"a: 1\na: 2\n", YAML, 400, id="key twice"),
        pytest.param(b"a: .inf\n", YAML, 400, id="infinity"),
        pytest.param(b"a: !!python/object:os.system {}\n", YAML, 400, id="foreign tag"),
        pytest.param(b"a: !!set {x}\n", YAML, 400, id="not a JSON value"),
        pytest.param(b"{a: " * 300 + b"}" * 300, YAML, 400, id="nested YAML"),
        pytest.param(b"k8s\0\xff\xff\xff", PROTOBUF, 400, id="broken Protobuf"),
        pytest.param(b"{}", "text/plain", 415, id="unknown media type"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused(body: bytes, media: str, code: int) -> None:
    with pytest.raises(ApiError) as refusal:
        decode(body, media)

    assert refusal.value.code == code


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(b'{"a":"' + b"x" * 1_200_000 + b'",}', "trailing comma", id="too large to be YAML"),
        pytest.param(b'{"a":' * 300 + b"1" + b"}" * 300, "nests deeper than 200 levels", id="nested too deep"),
    ],
)
def test_json_that_is_sent_as_yaml_is_refused_for_what_is_wrong_with_it(body: bytes, message: str) -> None:
    with pytest.raises(ApiError, match=message) as refusal:
        decode(body, YAML)

    assert refusal.value.code == 400


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b"when: 2030-01-01\n", {"when": "2030-01-01"}, id="instants stay text"),
        pytest.param(b"1: x\ntrue: y\n", {"1": "x", "true": "y"}, id="keys become text"),
        pytest.param(b'{"a": [1, null]}', {"a": [1, None]}, id="JSON is YAML"),
        pytest.param(b"{a: [1, x], b: {c: d}}", {"a": [1, "x"], "b": {"c": "d"}}, id="flow style is YAML"),
    ],
)
def test_yaml_means_what_json_could_say(body: bytes, expected: object) -> None:
    assert decode(body, YAML) == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        pytest.param(b'{"a":1,"b":{"a":2}}', [], id="none"),
        pytest.param(b'{ "a" : 1 }', [], id="spaces are no duplicates"),
        pytest.param(b'{"a":1,"a":1}', ["a"], id="at the top"),
        pytest.param(b'{"s":{"x":[{"y":1,"y":2}]}}', ["s.x[0].y"], id="deep inside"),
    ],
)
def test_duplicate_fields(body: bytes, expected: list[str]) -> None:
    assert duplicate_fields(body, decode(body, JSON)) == expected


@settings(max_examples=60)
@given(body=st.binary(max_size=400), media=st.sampled_from([JSON, YAML, PROTOBUF]))
def test_no_bytes_do_more_than_be_refused(body: bytes, media: str) -> None:
    prefix = b"k8s\0" if media == PROTOBUF else b""
    with contextlib.suppress(ApiError):
        assert isinstance(decode(prefix + body, media), dict)


FULL = """
import asyncio, re, resource
from tests.apiserver.server.test_server import a_plane
from watchword.api.http import Request

async def main():
    plane = a_plane()
    headers = (("authorization", "admin"), ("content-type", "application/json"))
    path = "/api/v1/namespaces/default/configmaps"
    await plane.handle(Request("POST", path, headers=headers, body=b"{"))  # everything is imported now
    body = b'{"data":{"a":"' + b"x" * 2_900_000 + b'"}}'
    used = int(re.search(r"VmSize:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) * 1024
    resource.setrlimit(resource.RLIMIT_AS, (used + 2**23, resource.RLIM_INFINITY))
    answer = await plane.handle(Request("POST", path, headers=headers, body=body))
    print(answer.status, dict(answer.headers).get("Retry-After"))

asyncio.run(main())
"""


@pytest.mark.real_time
def test_body_for_which_memory_is_lacking_may_be_sent_again_later() -> None:
    run = subprocess.run([sys.executable, "-c", FULL], capture_output=True, text=True, check=True)

    assert run.stdout.split() == ["503", "5"]
