"""Protobuf bodies: read like JSON, or refused."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.meta import Object
from watchword.apiserver.kinds.build import message_of
from watchword.apiserver.serving.model import ApiError
from watchword.apiserver.serving.protobuf import MAGIC, decode
from watchword.testing.kube_apiserver_backend import KUBERNETES_VERSION


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def piece(field: int, value: bytes | str) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(raw)) + raw


def envelope(api_version: str, kind: str, raw: bytes) -> bytes:
    return MAGIC + piece(1, piece(1, api_version) + piece(2, kind)) + piece(2, raw) + piece(3, "") + piece(4, "")


META = piece(1, piece(1, "thing") + piece(2, "") + piece(7, b"")[:0] + number(7, 0))


@pytest.mark.parametrize(
    ("api_version", "kind", "raw", "expected"),
    [
        pytest.param(
            "v1",
            "Secret",
            META + piece(2, piece(1, "a") + piece(2, b"\xff\x00")) + piece(3, "Opaque"),
            {"metadata": {"name": "thing"}, "data": {"a": "/wA="}, "type": "Opaque"},
            id="bytes become base64, empty fields absence",
        ),
        pytest.param(
            "v1",
            "Secret",
            META + piece(2, piece(1, "empty")),
            {"metadata": {"name": "thing"}, "data": {"empty": ""}},
            id="a map entry without value",
        ),
        pytest.param(
            "coordination.k8s.io/v1",
            "Lease",
            META + piece(2, piece(4, number(1, 1700000000) + number(2, 123456789)) + number(2, 15)),
            {
                "metadata": {"name": "thing"},
                "spec": {"renewTime": "2023-11-14T22:13:20.123456Z", "leaseDurationSeconds": 15},
            },
            id="instants",
        ),
        pytest.param(
            "v1",
            "DeleteOptions",
            number(1, 0) + piece(2, piece(1, "uid")) + piece(4, "Background") + piece(5, "All"),
            {
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "uid"},
                "propagationPolicy": "Background",
                "dryRun": ["All"],
            },
            id="options of any group",
        ),
        pytest.param(
            "v1",
            "ConfigMap",
            META + piece(99, "from the future") + number(98, 7) + varint(97 << 3 | 5) + b"abcd",
            {"metadata": {"name": "thing"}},
            id="unknown fields are skipped",
        ),
        pytest.param(
            "apps/v1",
            "Deployment",
            META + piece(2, number(1, -1) + piece(4, piece(2, piece(2, number(1, 1) + piece(3, "25%"))))),
            {
                "metadata": {"name": "thing"},
                "spec": {
                    "replicas": -1,
                    "selector": None,
                    "template": {"metadata": {}, "spec": {"containers": None}},
                    "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
                },
                "status": {},
            },
            id="negative numbers, texts for numbers",
        ),
    ],
)
def test_a_body_reads_like_its_json(api_version: str, kind: str, raw: bytes, expected: Object) -> None:
    assert decode(envelope(api_version, kind, raw)) == {"apiVersion": api_version, "kind": kind, **expected}


def test_last_of_repeated_members_of_the_envelope_counts() -> None:
    repeated = MAGIC + piece(1, piece(1, "v1") + piece(2, "Pod")) + number(2, 7) + number(5, 0) * 1000
    again = piece(1, piece(1, "v0") + piece(2, "Secret") + piece(1, "v1")) + piece(2, piece(2, piece(1, b"")))

    assert decode(repeated + again)["kind"] == "Secret"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        pytest.param(b"{}", "does not appear to be a protobuf message", id="JSON"),
        pytest.param(envelope("v1", "Nothing", b""), 'no kind "Nothing" is registered', id="unknown kind"),
        pytest.param(envelope("v1", "Secret", b"\x0a\xff"), "ends in the middle", id="cut short"),
        pytest.param(envelope("v1", "Secret", b"\xff" * 11), "longer than 64 bits", id="endless number"),
        pytest.param(envelope("v1", "Secret", piece(3, b"\xff")), "not UTF-8", id="not text"),
        pytest.param(envelope("v1", "Secret", number(1, 1)), "does not fit a message", id="number for a message"),
        pytest.param(envelope("v1", "Secret", b"\x0b"), "wire type 3 is not understood", id="group"),
        pytest.param(envelope("v1", "Secret", b"\x00\x00"), "number zero", id="field zero"),
        pytest.param(MAGIC + piece(4, "application/cbor"), "another encoding", id="another encoding inside"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_a_reason(body: bytes, complaint: str) -> None:
    with pytest.raises(ApiError, match=complaint) as refusal:
        decode(body)

    assert refusal.value.code == 400


def test_schemas_nested_without_end_are_refused() -> None:
    schema = b""
    for _ in range(5000):
        schema = piece(28, schema)
    version = piece(7, piece(4, piece(1, schema)))

    with pytest.raises(ApiError, match="nested deeper"):
        decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", piece(2, version)))


def test_json_inside_protobuf_nests_no_deeper_than_json_outside() -> None:
    deep = b"[" * 500 + b"]" * 500
    entry = piece(17, piece(7, piece(1, deep)))

    with pytest.raises(ApiError, match="nests deeper"):
        decode(envelope("v1", "ConfigMap", piece(1, entry)))


def test_the_unions_of_schemas_are_read() -> None:
    text = piece(5, "string")
    schema = piece(5, "object") + piece(30, number(1, 1)) + piece(24, piece(1, text)) + piece(8, piece(1, b'{"a":[1]}'))
    version = piece(1, "v1") + piece(4, piece(1, schema))

    crd = decode(envelope("apiextensions.k8s.io/v1", "CustomResourceDefinition", piece(2, piece(7, version))))

    assert crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == {
        "type": "object",
        "additionalProperties": True,
        "items": {"type": "string"},
        "default": {"a": [1]},
    }


def _golden() -> list[Path]:
    cache = Path(os.environ.get("GOMODCACHE") or Path.home() / "go" / "pkg" / "mod")
    folders = list(cache.glob(f"k8s.io/api@{KUBERNETES_VERSION.replace('v1.', 'v0.')}/testdata/HEAD"))
    return [path for path in sorted(folders[-1].glob("*.pb")) if _is_ours(path)] if folders else []


def _is_ours(path: Path) -> bool:
    expected = json.loads(path.with_suffix(".json").read_bytes())
    group, _, version = expected.get("apiVersion", "").rpartition("/")
    try:
        message_of(group, version, expected.get("kind", ""))
    except KeyError:
        return False
    return True


def test_the_golden_bytes_of_kubernetes_read_as_its_golden_json() -> None:
    golden = _golden()
    if not golden:
        pytest.skip("no k8s.io/api test data under GOMODCACHE: run `go mod download k8s.io/api`")

    differing = [
        path.name for path in golden if decode(path.read_bytes()) != json.loads(path.with_suffix(".json").read_bytes())
    ]

    assert differing == []
    assert len(golden) >= 25


@given(body=st.binary(max_size=300))
@settings(max_examples=60)
def test_no_bytes_can_do_more_than_be_refused(body: bytes) -> None:
    for kind, api_version in (("Pod", "v1"), ("CustomResourceDefinition", "apiextensions.k8s.io/v1")):
        for hostile in (MAGIC + body, envelope(api_version, kind, body)):
            try:
                assert isinstance(decode(hostile), dict)
            except ApiError as refusal:
                assert refusal.code == 400  # noqa: PT017 - acceptance is as good as refusal here


@given(position=st.integers(0, 200), byte=st.integers(0, 255))
@settings(max_examples=60)
def test_a_damaged_body_is_read_or_refused(position: int, byte: int) -> None:
    raw = META + piece(2, piece(1, "a") + piece(2, b"xyz")) + piece(3, "Opaque")
    body = bytearray(envelope("v1", "Secret", raw))
    body[4 + position % (len(body) - 4)] = byte

    try:
        assert isinstance(decode(bytes(body)), dict)
    except ApiError as refusal:
        assert refusal.code == 400  # noqa: PT017 - acceptance is as good as refusal here
