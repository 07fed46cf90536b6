"""A real registry behind the token service, and a real client of it."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import shutil
import tarfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
from tests.helpers.server_decision import grant

from watchword.api import yaml
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import service_account_user
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pullsecrets.registry_auth import RegistryAuthOptions, TokenServiceOptions, run_registry_auth
from watchword.runtime.clock import SystemClock
from watchword.testing.process import ChildProcess, free_port

SERVICE = "registry.test"
PROGRAMS = ("docker-registry", "skopeo")


def require_programs() -> None:
    """Skip a test where the registry or its client is not installed."""
    missing = [name for name in PROGRAMS if shutil.which(name) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (apt-get install {' '.join(PROGRAMS)})")


@dataclass(frozen=True)
class Registry:
    """A registry that accepts what the token service signs."""

    folder: Path
    port: int
    realm: str

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def token(self, session: aiohttp.ClientSession, repository: str, auth: str) -> str:
        """Ask the token service for a token to pull from a repository."""
        query = {"service": SERVICE, "scope": f"repository:{repository}:pull"}
        async with session.get(self.realm, params=query, headers={"Authorization": f"Basic {auth}"}) as answer:
            found: str = (await answer.json())["token"]
            return found

    async def push(self, repository: str, dockercfg: Object) -> str:
        """Push an image; return what the client complained about, empty when it did not."""
        return await self._copy(f"oci:{self._image()}", f"docker://{self.host}/{repository}", dockercfg, "dest")

    async def pull(self, repository: str, dockercfg: Object) -> str:
        """Pull an image; return what the client complained about, empty when it did not."""
        target = self.folder / f"pulled-{len(list(self.folder.iterdir()))}"
        return await self._copy(f"docker://{self.host}/{repository}", f"dir:{target}", dockercfg, "src")

    async def _copy(self, source: str, target: str, dockercfg: Object, side: str) -> str:
        auth_file = self.folder / "auth.json"
        auth_file.write_bytes(orjson.dumps({"auths": dockercfg}))
        process = await asyncio.create_subprocess_exec(
            *("skopeo", "copy", f"--{side}-tls-verify=false", f"--authfile={auth_file}", "--quiet", source, target),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, complaint = await process.communicate()
        return complaint.decode() or "failed" if process.returncode else ""

    def _image(self) -> Path:
        """Write the smallest image that there is, as an OCI layout."""
        layout = self.folder / "image"
        if layout.exists():
            return layout
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        layer = _layer()
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": _rootfs(layer)}
        manifest = {
            "schemaVersion": 2,
            "config": _store(blobs, orjson.dumps(config), "application/vnd.oci.image.config.v1+json"),
            "layers": [_store(blobs, gzip.compress(layer), "application/vnd.oci.image.layer.v1.tar+gzip")],
        }
        row = _store(blobs, orjson.dumps(manifest), "application/vnd.oci.image.manifest.v1+json")
        (layout / "index.json").write_bytes(orjson.dumps({"schemaVersion": 2, "manifests": [row]}))
        (layout / "oci-layout").write_text('{"imageLayoutVersion":"1.0.0"}')
        return layout


@asynccontextmanager
async def open_registry(client: Client, folder: Path, *audiences: str) -> AsyncIterator[Registry]:
    """Run a registry and its token service."""
    authority = Authority.make("registry-auth", now=datetime.now(UTC))
    (folder / "root.pem").write_bytes(authority.certificate.pem)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    options = RegistryAuthOptions(TokenServiceOptions("test", SERVICE, audiences), ("127.0.0.1", 0), authority)
    serving = asyncio.create_task(
        run_registry_auth(client, options, clock=SystemClock(), stop=stop, started=ready.set_result)
    )
    registry = Registry(folder, free_port(), f"http://127.0.0.1:{await ready}/token")
    config = folder / "registry.yaml"
    config.write_text(yaml.dump(_configuration(registry)))
    process = ChildProcess(["docker-registry", "serve", str(config)], folder / "registry.log")
    try:
        await wait_until_listening(registry.port, process)
        yield registry
    finally:
        await asyncio.to_thread(process.stop)
        stop.set()
        await serving


async def allow(client: Client, account: ObjectKey, *verbs: str) -> None:
    """Let an account use the images of its namespace."""
    key = ObjectKey(account.namespace, f"images-{account.name}")
    rule = {"apiGroups": ["image.openshift.io"], "resources": ["imagestreams/layers"], "verbs": list(verbs)}
    await grant(client, key, [rule], service_account_user(account.namespace, account.name))


def _configuration(registry: Registry) -> dict[str, Any]:
    token = {
        "realm": registry.realm,
        "service": SERVICE,
        "issuer": "test",
        "rootcertbundle": str(registry.folder / "root.pem"),
    }
    return {
        "version": 0.1,
        "log": {"level": "error"},
        "storage": {"filesystem": {"rootdirectory": str(registry.folder / "storage")}},
        "http": {"addr": registry.host},
        "auth": {"token": token},
    }


async def wait_until_listening(port: int, process: ChildProcess) -> None:
    """Return once a process accepts connections."""
    async with asyncio.timeout(60):
        while True:
            assert process.is_running(), process.log_tail()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        info = tarfile.TarInfo("hello")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    return buffer.getvalue()


def _rootfs(layer: bytes) -> Object:
    return {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}


def _store(blobs: Path, data: bytes, media_type: str) -> Object:
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}
