"""What the volumes of a pod must look like."""

from __future__ import annotations

from collections.abc import Iterator

from watchword.api.meta import Object
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.names import dns_label
from watchword.apiserver.model import FieldError

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)


def volume_errors(volumes: list[Object], path: str) -> Iterator[FieldError]:
    """Validate names and sources; each volume has one source."""
    seen = set[str]()
    for index, volume in enumerate(volumes):
        where, name = f"{path}[{index}]", volume.get("name") or ""
        sources = sorted(volume.keys() - {"name"}, key=list(volume).index)
        for extra in sources[1:]:
            yield broken.forbidden(f"{where}.{extra}", "may not specify more than 1 volume type")
        if not name:
            yield broken.required(f"{where}.name")
        elif name in seen:
            yield broken.duplicate(f"{where}.name", name)
        else:
            yield from (broken.invalid(f"{where}.name", name, complaint) for complaint in dns_label(name))
        seen.add(name)
        if len(sources) == 1:
            yield from _source_errors(sources[0], volume[sources[0]], f"{where}.{sources[0]}")


def _source_errors(kind: str, source: Object, path: str) -> Iterator[FieldError]:
    match kind:
        case "hostPath":
            yield from _host_path_errors(source, path)
        case "secret" | "configMap":
            key = "secretName" if kind == "secret" else "name"
            if not source.get(key):
                yield broken.required(f"{path}.{key}")
            yield from _item_errors(source.get("items") or [], f"{path}.items")
        case "projected":
            for index, each in enumerate(source.get("sources") or ()):
                yield from _projection_errors(each, f"{path}.sources[{index}]")
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                yield broken.required(f"{path}.claimName")


def _host_path_errors(source: Object, path: str) -> Iterator[FieldError]:
    place = source.get("path") or ""
    if not place:
        yield broken.required(f"{path}.path")
    elif ".." in place.split("/"):
        yield broken.invalid(f"{path}.path", place, "must not contain '..'")
    if source.get("type") not in (None, *_HOST_PATH_TYPES):
        yield broken.not_supported(f"{path}.type", source["type"], _HOST_PATH_TYPES)


def _projection_errors(source: Object, path: str) -> Iterator[FieldError]:
    for kind in ("secret", "configMap"):
        projected = source.get(kind)
        if projected is not None and not projected.get("name"):
            yield broken.required(f"{path}.{kind}.name")
        if projected is not None:
            yield from _item_errors(projected.get("items") or [], f"{path}.{kind}.items")
    token = source.get("serviceAccountToken")
    if token is not None:
        yield from _token_errors(token, f"{path}.serviceAccountToken")


def _token_errors(token: Object, path: str) -> Iterator[FieldError]:
    seconds = token.get("expirationSeconds")
    if seconds is not None and seconds < 600:
        detail = "may not specify a duration less than 10 minutes"
        yield broken.invalid(f"{path}.expirationSeconds", seconds, detail)
    if seconds is not None and seconds > 1 << 32:
        yield broken.invalid(
            f"{path}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"
        )
    if not token.get("path"):
        yield broken.required(f"{path}.path")


def _item_errors(items: list[Object], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        where, place = f"{path}[{index}]", item.get("path") or ""
        if not item.get("key"):
            yield broken.required(f"{where}.key")
        if not place:
            yield broken.required(f"{where}.path")
        elif place.startswith("/"):
            yield broken.invalid(f"{where}.path", place, "must be a relative path")
        elif ".." in place.split("/"):
            yield broken.invalid(f"{where}.path", place, "must not contain '..'")
