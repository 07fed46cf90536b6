"""Request shapes: the same requests sent to any control plane, and their answers made comparable."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import yaml

from watchword.api.http import Request, Response
from watchword.kube.transport import Transport

_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
_GENERATED = re.compile(r"(gen-[a-z]*-?)[bcdfghjklmnpqrstvwxz2456789]{5}\b")
_REVISION_WORDS = re.compile(r"(resource version|ResourceVersion in [a-z ]+|current)(:? )\d+(?: \(\d+\))?")
_RECORDED = re.compile(r"(ResourceVersion in record) \(\d+\)")
_AGE = re.compile(r"^\d+[smhd](\d+[smhd])?$")
_FINGERPRINT = re.compile(r"X509SHA256=[0-9a-f]{64}")
_HIDDEN = {"token": "token", "serverAddress": "address", "storageVersionHash": "hash"}  # what is said, never how
_REVISIONS = frozenset({"resourceVersion"})
_PATIENCE, _PAUSE = 100, 0.1
_HEADERS = ("Content-Type", "Warning", "Retry-After", "Allow")


@dataclass(frozen=True, slots=True)
class Shape:
    """One request. `<ns>` stands for the scenario's namespace; `<rv>`, `<uid>` for those of a kept answer."""

    name: str
    method: str
    path: str
    body: Any = None
    raw: str = ""  # a body that is no JSON
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    until: int = 0  # send again, for a while, until the answer has this code: servers learn of definitions in time
    settle: str = ""  # send again, for a while, until the answer contains this text
    keep: bool = False  # later requests mean this answer when they say <rv>, <uid>, <continue>


def read_scenario(path: Path) -> list[Shape]:
    """Read a YAML file of shapes; the names in it must differ."""
    rows = yaml.safe_load(path.read_text())
    shapes = [_shape(row) for row in rows]
    names = [shape.name for shape in shapes]
    assert len(set(names)) == len(names), f"{path.name} names a shape twice"
    return shapes


def _shape(row: dict[str, Any]) -> Shape:
    method, _, path = row.pop("do").partition(" ")
    return Shape(method=method, path=path, **row)


class Replay:
    """Sends shapes in order and notes what was answered."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport = transport
        self._memory = {"ns": namespace}

    async def answer(self, shape: Shape) -> dict[str, Any]:
        """Send one shape; return its answer in comparable form."""
        response = await self._send(shape)
        for _ in range(_PATIENCE):
            if shape.until in {0, response.status} and shape.settle.encode() in response.body:
                break
            await asyncio.sleep(_PAUSE)
            response = await self._send(shape)
        if shape.keep:
            self._remember(response.body)
        return comparable(response, self._memory["ns"])

    async def _send(self, shape: Shape) -> Response:
        async with self._transport.stream(self._request(shape)) as response:
            body = await _whole(response.stream) if response.stream is not None else response.body
        return Response(response.status, response.headers, body)

    def _request(self, shape: Shape) -> Request:
        headers = {"Accept": "application/json", "User-Agent": "shapes/1", **shape.headers}
        body = b""
        if shape.raw:
            body = self._filled(shape.raw).encode()
        elif shape.body is not None:
            body = self._filled(orjson.dumps(shape.body).decode()).encode()
        if body and "Content-Type" not in headers:
            headers["Content-Type"] = "application/json"
        query = tuple((name, self._filled(str(value))) for name, value in shape.query.items())
        return Request(shape.method, self._filled(shape.path), query, tuple(headers.items()), body)

    def _filled(self, text: str) -> str:
        for name, value in self._memory.items():
            text = text.replace(f"<{name}>", value)
        return text

    def _remember(self, body: bytes) -> None:
        metadata = orjson.loads(body).get("metadata") or {}
        self._memory.update({"rv": metadata.get("resourceVersion", ""), "uid": metadata.get("uid", "")})
        self._memory["continue"] = metadata.get("continue", "")
        self._memory["name"] = metadata.get("name", "")


async def _whole(stream: AsyncIterator[bytes]) -> bytes:
    return b"".join([chunk async for chunk in stream])


def comparable(response: Response, namespace: str) -> dict[str, Any]:
    """Return an answer without what differs between any two servers: identities, times, revisions."""
    headers = {name: response.header(name) for name in _HEADERS if response.header(name)}
    warnings = [value for name, value in response.headers if name.lower() == "warning"]
    if warnings:
        headers["Warning"] = "; ".join(_text(warning, namespace) for warning in warnings)
    return {"status": response.status, "headers": headers, "body": _decoded(response.body, namespace)}


def _decoded(body: bytes, namespace: str) -> Any:
    try:
        return _plain(orjson.loads(body), namespace)
    except orjson.JSONDecodeError:
        lines = body.decode("utf-8", "replace").splitlines()
    try:
        return [_plain(orjson.loads(line), namespace) for line in lines]
    except orjson.JSONDecodeError:
        return _text("\n".join(lines), namespace)


def _plain(value: Any, namespace: str) -> Any:
    if isinstance(value, dict):
        if str(value.get("kind")).endswith(("Review", "TokenRequest")):
            (value.get("metadata") or {}).pop("managedFields", None)  # a question is not kept: nobody owns its fields
        return {
            _text(key, namespace): _field(key, item, namespace)
            for key, item in sorted(value.items())
            if not (key == "creationTimestamp" and item is None) and key != "description"
        }
    if isinstance(value, list):
        return [_plain(item, namespace) for item in value]
    return _text(value, namespace) if isinstance(value, str) else value


def _field(key: str, value: Any, namespace: str) -> Any:
    if key in _REVISIONS and isinstance(value, str) and value.isdigit():
        return "<rv>"
    if key == "continue" and value:
        return "<continue>"
    if key in _HIDDEN:
        return f"<{_HIDDEN[key]}>"
    if key == "cells":
        return [_AGE.sub("<age>", cell) if isinstance(cell, str) else cell for cell in value]
    return _plain(value, namespace)


def _text(text: str, namespace: str) -> str:
    text = _UID.sub("<uid>", _INSTANT.sub("<time>", text)).replace(namespace, "<ns>")
    text = _RECORDED.sub(r"\1 (<rv>)", _REVISION_WORDS.sub(r"\1\2<rv>", text))
    return _FINGERPRINT.sub("<certificate>", _GENERATED.sub(r"\1<five>", text))


def differences(expected: Any, found: Any, path: str = "") -> Sequence[str]:
    """Return the paths at which two comparable answers differ, with both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        keys = sorted({*expected, *found})
        return [
            line
            for key in keys
            for line in differences(expected.get(key, _ABSENT), found.get(key, _ABSENT), f"{path}.{key}")
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = enumerate(zip(expected, found, strict=True))
        return [line for index, (a, b) in pairs for line in differences(a, b, f"{path}[{index}]")]
    return [] if expected == found else [f"{path}: expected {_shown(expected)}, found {_shown(found)}"]


_ABSENT = object()


def _shown(value: Any) -> str:
    return "nothing" if value is _ABSENT else orjson.dumps(value).decode()[:300]
