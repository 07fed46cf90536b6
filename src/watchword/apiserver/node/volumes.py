"""The mounted files of a pod: Secrets, ConfigMaps, its token; rewritten when they change."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from msgspec import Struct, field

from watchword.api.limits import SHORTEST_TOKEN_LIFETIME
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.resources import CONFIG_MAPS, NODES, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.apiserver.access.pki_directory import write_private
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.node.containers import is_plain, mounts_of, pod_root, read_field
from watchword.apiserver.serving.model import Now, Registry, decode_base64

RENEW_AT = 0.8
"""A token is replaced after this part of its life."""


class MissingVolumeSource(Exception):
    """Something that the pod mounts does not exist yet; the message names it."""


class Volumes(Struct):
    """Keeps the files of every pod equal to their sources; tokens are renewed in time."""

    registry: Registry
    issuer: TokenIssuer
    audiences: Sequence[str]
    now: Now
    folder: Path
    # By the pod's UID, volume and path, with the instant of its renewal.
    _tokens: dict[tuple[str, str, str], tuple[Sensitive[str], datetime]] = field(default_factory=dict)

    def write_files(self, pod: Object) -> float | None:
        """Write what differs; return in how many seconds to look again. Raises `MissingVolumeSource`."""
        volumes = pod["spec"].get("volumes") or ()
        contents = {volume["name"]: dict(self._files(pod, volume)) for volume in volumes}
        kept = {volume["name"] for volume in volumes if "emptyDir" in volume}
        root = pod_root(self.folder, pod)
        for container in pod["spec"]["containers"]:
            for mount in mounts_of(container):
                place = root / str(mount["mountPath"]).lstrip("/")
                place.mkdir(mode=0o700, parents=True, exist_ok=True)
                if mount["name"] in contents:
                    _sync_files(place, contents[mount["name"]], keep_others=mount["name"] in kept)
        due = [renew_at for (uid, _, _), (_, renew_at) in self._tokens.items() if uid == uid_of(pod)]
        return max(1.0, (min(due) - self.now()).total_seconds()) if due else None

    def forget(self, uid: str) -> None:
        for key in [key for key in self._tokens if key[0] == uid]:
            del self._tokens[key]
        shutil.rmtree(self.folder / uid, ignore_errors=True)

    def close(self, uid: str) -> None:
        """Remove a pod's files, but not its log."""
        shutil.rmtree(self.folder / uid / "root", ignore_errors=True)

    def _files(self, pod: Object, volume: Object) -> Iterator[tuple[str, bytes]]:
        for source in (volume, *((volume.get("projected") or {}).get("sources") or ())):
            for resource, kind in ((SECRETS, "secret"), (CONFIG_MAPS, "configMap")):
                if kind in source:
                    yield from self._of_object(resource, pod, source[kind])
            for item in (source.get("downwardAPI") or {}).get("items") or ():
                yield str(item["path"]), read_field(pod, str((item.get("fieldRef") or {}).get("fieldPath"))).encode()
            if "serviceAccountToken" in source:
                yield self._token(pod, volume["name"], source["serviceAccountToken"])

    def _of_object(self, resource: Resource, pod: Object, source: Object) -> Iterator[tuple[str, bytes]]:
        key = ObjectKey(pod["metadata"]["namespace"], source.get("secretName") or source.get("name") or "")
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
        if held is None or held[1] <= self.now():
            held = self._tokens[place] = self._issue(pod, source)
        return path, held[0].reveal().encode()

    def _issue(self, pod: Object, source: Object) -> tuple[Sensitive[str], datetime]:
        name = str(pod["spec"].get("serviceAccountName") or "default")
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(pod["metadata"]["namespace"], name))
        if account is None:
            raise MissingVolumeSource(
                f"ServiceAccount {name} does not exist in namespace {pod['metadata']['namespace']}"
            )
        node = self.registry.get(NODES, ObjectKey.cluster(str(pod["spec"].get("nodeName") or "")))
        seconds = max(int(SHORTEST_TOKEN_LIFETIME.total_seconds()), int(source.get("expirationSeconds") or 3600))
        audiences = [source["audience"]] if source.get("audience") else list(self.audiences)
        now, bound = self.now(), {"pod": pod} if node is None else {"node": node, "pod": pod}
        token = self.issuer.issue(account, audiences, seconds, bound, now=now)
        return token, now + timedelta(seconds=seconds * RENEW_AT)


def _content(found: Object) -> dict[str, bytes]:
    texts, encoded = ("data", "binaryData") if found["kind"] == "ConfigMap" else ("", "data")
    plain = {name: str(text).encode() for name, text in (found.get(texts) or {}).items()}
    return plain | {name: decode_base64(text) for name, text in (found.get(encoded) or {}).items()}


def _sync_files(place: Path, wanted: Mapping[str, bytes], *, keep_others: bool) -> None:
    safe = {name: data for name, data in wanted.items() if is_plain(f"/{name}")}
    for name, data in safe.items():
        path = place / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, data)
    if keep_others:
        return
    for found in [path for path in place.rglob("*") if path.is_file()]:
        if str(found.relative_to(place)) not in safe:
            found.unlink(missing_ok=True)
