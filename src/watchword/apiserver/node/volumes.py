"""The mounted files of a pod: Secrets, ConfigMaps, its token; rewritten when they change."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.resources import CONFIG_MAPS, NODES, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import HiddenFields
from watchword.apiserver.model import Now, Registry
from watchword.apiserver.node.containers import is_plain, mounts_of, pod_root, read_field
from watchword.apiserver.tokens import BoundObjects, TokenIssuer, TokenLifetime

RENEW_AT = 0.8
"""A token is replaced after this part of its life."""
SHORTEST_SECONDS = 600


class MissingVolumeSource(Exception):
    """Something that the pod mounts does not exist yet; the message names it."""


class MountedToken(HiddenFields, frozen=True):
    """A token as it lies in its file."""

    hidden = ("content",)

    content: bytes
    renew_at: datetime


class Volumes(Struct):
    """Keeps the files of every pod equal to their sources; tokens are renewed in time."""

    registry: Registry
    issuer: TokenIssuer
    audiences: Sequence[str]
    now: Now
    folder: Path
    _tokens: dict[tuple[str, str, str], MountedToken] = field(default_factory=dict)  # by pod UID, volume, path

    def write_files(self, pod: Object) -> float | None:
        """Write what differs; return in how many seconds to look again. Raises `MissingVolumeSource`."""
        contents = {volume["name"]: dict(self._files(pod, volume)) for volume in pod["spec"].get("volumes") or ()}
        root = pod_root(self.folder, pod)
        for container in pod["spec"]["containers"]:
            for mount in mounts_of(container):
                place = root / str(mount["mountPath"]).lstrip("/")
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                if mount["name"] in contents:
                    kept = "emptyDir" in _volume(pod, mount["name"])
                    _sync_files(place, contents[mount["name"]], keep_others=kept)
        due = [held.renew_at for (uid, _, _), held in self._tokens.items() if uid == uid_of(pod)]
        return max(1.0, (min(due) - self.now()).total_seconds()) if due else None

    def forget(self, uid: str) -> None:
        for key in [key for key in self._tokens if key[0] == uid]:
            del self._tokens[key]
        shutil.rmtree(self.folder / uid, ignore_errors=True)

    def close(self, uid: str) -> None:
        """Remove a pod's files, but not its log."""
        shutil.rmtree(self.folder / uid / "root", ignore_errors=True)

    def _files(self, pod: Object, volume: Object) -> Iterator[tuple[str, bytes]]:
        if "secret" in volume:
            yield from self._of_object(SECRETS, pod, volume["secret"], volume["secret"].get("secretName"))
        if "configMap" in volume:
            yield from self._of_object(CONFIG_MAPS, pod, volume["configMap"], volume["configMap"].get("name"))
        if "downwardAPI" in volume:
            yield from _downward(pod, volume["downwardAPI"])
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from self._projected(pod, volume["name"], source)

    def _projected(self, pod: Object, volume: str, source: Object) -> Iterator[tuple[str, bytes]]:
        if "secret" in source:
            yield from self._of_object(SECRETS, pod, source["secret"], source["secret"].get("name"))
        if "configMap" in source:
            yield from self._of_object(CONFIG_MAPS, pod, source["configMap"], source["configMap"].get("name"))
        if "downwardAPI" in source:
            yield from _downward(pod, source["downwardAPI"])
        if "serviceAccountToken" in source:
            yield self._token(pod, volume, source["serviceAccountToken"])

    def _of_object(
        self, resource: Resource, pod: Object, source: Object, name: str | None
    ) -> Iterator[tuple[str, bytes]]:
        key = ObjectKey(pod["metadata"]["namespace"], name or "")
        found = self.registry.get(resource, key)
        if found is None:
            if source.get("optional"):
                return
            raise MissingVolumeSource(f"{resource.kind} {key.name} does not exist in namespace {key.namespace}")
        data = _content(found)
        items = source.get("items")
        if items is None:
            yield from data.items()
            return
        for item in items:
            if item["key"] in data:
                yield str(item["path"]), data[item["key"]]
            elif not source.get("optional"):
                raise MissingVolumeSource(f"{resource.kind} {key.name} has no key {item['key']}")

    def _token(self, pod: Object, volume: str, source: Object) -> tuple[str, bytes]:
        path = str(source.get("path"))
        place = (uid_of(pod), volume, path)
        held = self._tokens.get(place)
        if held is None or held.renew_at <= self.now():
            held = self._tokens[place] = self._issue(pod, source)
        return path, held.content

    def _issue(self, pod: Object, source: Object) -> MountedToken:
        name = str(pod["spec"].get("serviceAccountName") or "default")
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(pod["metadata"]["namespace"], name))
        if account is None:
            raise MissingVolumeSource(
                f"ServiceAccount {name} does not exist in namespace {pod['metadata']['namespace']}"
            )
        node = self.registry.get(NODES, ObjectKey.cluster(str(pod["spec"].get("nodeName") or "")))
        seconds = max(SHORTEST_SECONDS, int(source.get("expirationSeconds") or 3600))
        audiences = [source["audience"]] if source.get("audience") else list(self.audiences)
        now = self.now()
        token = self.issuer.issue(account, audiences, TokenLifetime(seconds), BoundObjects(pod=pod, node=node), now=now)
        return MountedToken(token.reveal().encode(), now + timedelta(seconds=seconds * RENEW_AT))


def sources_of(pod: Object, resource: Resource) -> set[str]:
    field_name, name_key = ("secret", "secretName") if resource is SECRETS else ("configMap", "name")
    names: set[str] = set()
    for volume in (pod.get("spec") or {}).get("volumes") or ():
        names.add((volume.get(field_name) or {}).get(name_key) or "")
        for source in (volume.get("projected") or {}).get("sources") or ():
            names.add((source.get(field_name) or {}).get("name") or "")
    return names - {""}


def _downward(pod: Object, source: Object) -> Iterator[tuple[str, bytes]]:
    for item in source.get("items") or ():
        yield str(item["path"]), read_field(pod, str((item.get("fieldRef") or {}).get("fieldPath"))).encode()


def _content(found: Object) -> dict[str, bytes]:
    if found["kind"] == "ConfigMap":
        texts = {name: str(text).encode() for name, text in (found.get("data") or {}).items()}
        return texts | {name: _decoded(text) for name, text in (found.get("binaryData") or {}).items()}
    return {name: _decoded(text) for name, text in (found.get("data") or {}).items()}


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except binascii.Error:
        return b""


def _volume(pod: Object, name: str) -> Mapping[str, object]:
    return next((volume for volume in pod["spec"].get("volumes") or () if volume["name"] == name), {})


def _sync_files(place: Path, wanted: Mapping[str, bytes], *, keep_others: bool) -> None:
    safe = {name: data for name, data in wanted.items() if is_plain(f"/{name}")}
    for name, data in safe.items():
        _write(place / name, data)
    if keep_others:
        return
    for found in [path for path in place.rglob("*") if path.is_file()]:
        if str(found.relative_to(place)) not in safe:
            found.unlink(missing_ok=True)


def _write(path: Path, data: bytes) -> None:
    """Replace a file atomically, so that no reader sees half of it."""
    try:
        if path.read_bytes() == data:
            return
    except OSError:
        pass
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
    temporary.replace(path)
