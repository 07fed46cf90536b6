"""Removes from responses what differs between any two servers: identities, times, revisions, keys."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from watchword.api.http import Response
from watchword.pki.certificates import parse_certificate

REPLACEMENTS = [
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "<time>"),
        (r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", "<uid>"),
        (r"(resource version|ResourceVersion in [a-z ]+|current)(:? )\d+(?: \(\d+\))?", r"\1\2<rv>"),
        (r"(ResourceVersion in record) \(\d+\)", r"\1 (<rv>)"),
        (r"(gen-[a-z]*-?)[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"\1<five>"),
        (r"X509SHA256=[0-9a-f]{64}", "X509SHA256=<hash>"),
        (r"hash=[0-9A-F]+", "hash=<hash>"),
        (
            r'(Invalid value: )"\{.*\}"(?=: )',
            r"\1<object>",
        ),  # quoted as a whole, each server in its own order of fields
    )
]
AGE = re.compile(r"^\d+[smhd](\d+[smhd])?$")
JWT = re.compile(r"^ey[\w-]+\.ey[\w-]+\.[\w-]+$")
UNORDERED = frozenset({"resourceRules", "nonResourceRules", "causes"})  # Go walks maps in any order
SEVERAL = re.compile(r"(is invalid: )\[.*\]$", re.DOTALL)
HEADERS = ("Content-Type", "Retry-After", "Allow", "WWW-Authenticate", "Location")


class Normaliser:
    """Makes the responses of one scenario comparable; revisions are numbered per object."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = known
        self._revisions: dict[str, list[str]] = {}

    def comparable(self, response: Response, *, among: Sequence[str] = (), hide: Sequence[str] = ()) -> dict[str, Any]:
        """Return the status, the relevant headers and the body."""
        headers = {name: response.header(name) for name in HEADERS if response.header(name)}
        warnings = [self._text(value) for name, value in response.headers if name.lower() == "warning"]
        if warnings:
            headers["Warning"] = " ".join(warnings)
        body = self._body(response.body)
        if among:
            body = _only(body, frozenset(among))
        for path in hide:
            _hidden(body, path.split("."))
        return {"status": response.status, "headers": headers, "body": body}

    def _body(self, body: bytes) -> Any:
        try:
            return self._plain(orjson.loads(body))
        except orjson.JSONDecodeError:
            lines = body.decode("utf-8", "replace").splitlines()
        try:
            return [self._plain(orjson.loads(line)) for line in lines]
        except orjson.JSONDecodeError:
            return self._text("\n".join(lines))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._text(key): self._field(value, key) for key in sorted(value) if _matters(key, value[key])}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _field(self, parent: dict[str, Any], key: str) -> Any:
        value = parent[key]
        if isinstance(value, str):
            return self._text_field(parent, key, value)
        if isinstance(value, list):
            return self._list_field(key, value)
        return self._plain(value)

    def _text_field(self, parent: dict[str, Any], key: str, value: str) -> Any:
        if key == "resourceVersion" and value.isdigit():
            return self._revision(str(parent.get("uid", "")), value)
        if key == "continue" and value:
            return "<continue>"
        if key == "message" and parent.get("reason") == "Invalid":
            return SEVERAL.sub(r"\1<causes>", self._text(value))
        return _certificate(value) if key == "certificate" else self._text(value)

    def _list_field(self, key: str, value: list[Any]) -> Any:
        items = [self._plain(item) for item in value]
        if key == "cells":
            return [AGE.sub("<age>", cell) if isinstance(cell, str) else cell for cell in items]
        if key == "managedFields":
            return sorted(map(_dated, items), key=_manager)
        return sorted(items, key=orjson.dumps) if key in UNORDERED else items

    def _revision(self, uid: str, revision: str) -> str:
        """Number the revisions of one object, so that a missing or an additional write is detected."""
        if not uid:
            return "<rv>"
        seen = self._revisions.setdefault(uid, [])
        if revision not in seen:
            seen.append(revision)
        return f"<rv {seen.index(revision) + 1}>"

    def _text(self, text: str) -> Any:
        if JWT.match(text):
            return self._plain(_claims(text))
        for name, value in self._known.items():
            text = text.replace(value, f"<{name}>")
        for pattern, replacement in REPLACEMENTS:
            text = pattern.sub(replacement, text)
        return text


def _matters(key: str, value: Any) -> bool:
    return key != "description" and not (key == "creationTimestamp" and value is None)


def _manager(entry: dict[str, Any]) -> tuple[str, ...]:
    """Sort by time first: two writes may or may not share a second."""
    return tuple(str(entry.get(name, "")) for name in ("manager", "operation", "apiVersion", "subresource"))


def _dated(entry: dict[str, Any]) -> dict[str, Any]:
    """Leave out the time of what was written through `scale`: kube-apiserver keeps it for some kinds only."""
    if entry.get("subresource") == "scale":
        entry.pop("time", None)
    return entry


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token, its times relative to the moment of issue."""
    header, claims = (orjson.loads(base64.urlsafe_b64decode(part + "==")) for part in token.split(".")[:2])
    issued = claims.get("iat", 0)
    times = {name: claims[name] - issued for name in ("exp", "nbf", "iat") if name in claims}
    inner = claims.get("kubernetes.io")
    if isinstance(inner, dict) and "warnafter" in inner:
        claims["kubernetes.io"] = {**inner, "warnafter": inner["warnafter"] - issued}
    for name in ("kid", "alg"):  # the operator chooses the type of the key
        header.pop(name, None)
    return {"header": header, "claims": {**claims, **times}}


def _certificate(encoded: str) -> Any:
    """Return the parts of a certificate that every signer must write alike."""
    certificate = parse_certificate(base64.b64decode(encoded))
    lifetime = certificate.not_after - certificate.not_before
    return {"subject": str(certificate.subject), "hours": round(lifetime.total_seconds() / 3600)}


def _only(value: Any, names: frozenset[str]) -> Any:
    """Reduce every list of named items, and every index of paths, to the entries of interest."""
    if isinstance(value, list):
        return [_only(item, names) for item in value if _wanted(_name(item), names)]
    if isinstance(value, dict):
        kept = {key: _only(item, names) for key, item in value.items()}
        if isinstance(kept.get("paths"), dict):
            kept["paths"] = {key: item for key, item in kept["paths"].items() if key in names}
        return kept
    return value


def _name(item: Any) -> str | None:
    if not isinstance(item, dict):
        return None
    inner = item.get("metadata")
    named = item.get("name") or item.get("resource") or (inner.get("name") if isinstance(inner, dict) else None)
    return named if isinstance(named, str) else None


def _wanted(name: str | None, names: Iterable[str]) -> bool:
    return name is None or name in names


def _hidden(body: Any, path: list[str]) -> None:
    if isinstance(body, list):
        for item in body:
            _hidden(item, path)
    elif isinstance(body, dict) and path[0] in body:
        if len(path) == 1:
            body[path[0]] = "<hidden>"
        else:
            _hidden(body[path[0]], path[1:])


def differences(expected: Any, found: Any, path: str = "") -> list[tuple[str, str]]:
    """Return the paths at which two comparable responses differ, each with both values."""
    if isinstance(expected, dict) and isinstance(found, dict):
        pairs = [(f"{path}.{key}", expected.get(key, ABSENT), found.get(key, ABSENT)) for key in {**expected, **found}]
    elif isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        pairs = [(f"{path}[{index}]", *both) for index, both in enumerate(zip(expected, found, strict=True))]
    elif type(expected) is type(found) and expected == found:
        return []
    else:
        return [(path, f"expected {_shown(expected)}, found {_shown(found)}")]
    return [line for inner, one, other in pairs for line in differences(one, other, inner)]


ABSENT = object()


def _shown(value: Any) -> str:
    return "nothing" if value is ABSENT else orjson.dumps(value).decode()[:400]
