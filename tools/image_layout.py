"""Writes a folder as an image of one layer in an OCI layout, the same bytes for the same content."""

from __future__ import annotations

import gzip
import hashlib
import json
import platform
import shutil
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class ImageConfiguration:
    """How a container of the image is started."""

    entrypoint: tuple[str, ...]
    command: tuple[str, ...]
    user: str
    environment: tuple[str, ...]
    created: int  # seconds since 1970, the time of every file as well
    labels: Mapping[str, str]


def write_layout(rootfs: Path, target: Path, tag: str, configuration: ImageConfiguration) -> str:
    """Write the layout, replacing what is there; return the digest of the image."""
    shutil.rmtree(target, ignore_errors=True)
    blobs = target / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    layer, uncompressed = _write_layer(rootfs, blobs, configuration.created)
    config = _store(blobs, "application/vnd.oci.image.config.v1+json", _config(configuration, uncompressed))
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": [layer],
    }
    row = _store(blobs, MANIFEST, manifest)
    row["annotations"] = {"org.opencontainers.image.ref.name": tag}
    (target / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [row]}))
    (target / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
    return str(row["digest"])


def _write_layer(rootfs: Path, blobs: Path, created: int) -> tuple[dict[str, Any], str]:
    """Write every file in the order of names, root's and of one time; return the blob and the digest of the tar."""
    plain = blobs / "layer.tar"
    with tarfile.open(plain, "w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(rootfs.rglob("*")):
            row = archive.gettarinfo(path, str(path.relative_to(rootfs)))
            row.uid = row.gid = 0
            row.uname = row.gname = ""
            row.mtime = created
            if row.isfile():
                with path.open("rb") as content:
                    archive.addfile(row, content)
            else:
                archive.addfile(row)
    uncompressed = _digest(plain)
    packed = blobs / "layer.tar.gz"
    with plain.open("rb") as source, packed.open("wb") as sink, gzip.GzipFile("", "wb", 6, sink, mtime=0) as stream:
        shutil.copyfileobj(source, stream)
    plain.unlink()
    return _named(packed, blobs, "application/vnd.oci.image.layer.v1.tar+gzip"), uncompressed


def _config(configuration: ImageConfiguration, layer: str) -> dict[str, Any]:
    created = datetime.fromtimestamp(configuration.created, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "created": created,
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": configuration.user,
            "Env": list(configuration.environment),
            "Entrypoint": list(configuration.entrypoint),
            "Cmd": list(configuration.command),
            "Labels": dict(configuration.labels),
        },
        "rootfs": {"type": "layers", "diff_ids": [layer]},
        "history": [{"created": created, "created_by": "tools/image.py"}],
    }


def _store(blobs: Path, media_type: str, content: Any) -> dict[str, Any]:
    path = blobs / "document.json"
    path.write_text(json.dumps(content, sort_keys=True))
    return _named(path, blobs, media_type)


def _named(path: Path, blobs: Path, media_type: str) -> dict[str, Any]:
    digest = _digest(path)
    moved = path.replace(blobs / digest.removeprefix("sha256:"))
    return {"mediaType": media_type, "digest": digest, "size": moved.stat().st_size}


def _digest(path: Path) -> str:
    with path.open("rb") as content:
        return f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}"
