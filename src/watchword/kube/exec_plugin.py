"""Credentials from a program: the `exec` entry of a kubeconfig, in its v1 and v1beta1 forms."""

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct, field

from watchword.api.limits import MAX_DOCUMENT_BYTES
from watchword.api.meta import Object
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.api.time import parse_rfc3339
from watchword.kube.credentials import Credential, bearer
from watchword.kube.errors import ConfigError
from watchword.kube.tls import ClientCertificate

VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
PIPE_DRAIN_SECONDS = 5.0
LEEWAY = timedelta(seconds=10)
"""A credential this close to its expiry is not used any more."""


class ExecPlugin(HiddenFields, frozen=True):
    """Which program to run, and how; `cluster` is passed to it when the kubeconfig says so."""

    hidden = ("arguments", "environment")

    command: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    api_version: str = VERSIONS[0]
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    folder: Path | None = None  # of the kubeconfig: where a relative path starts
    provide_cluster_info: bool = False


class ExecCredential(Struct):
    """Runs a plugin when there is no credential, when it nears its expiry, and after a 401; never twice at once."""

    plugin: ExecPlugin
    cluster: Object = field(default_factory=dict)
    headers: tuple[tuple[str, str], ...] = ()
    timeout: float = 25.0  # shorter than a request's timeout, so that the error names the plugin and not the server
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    _held: Credential | None = None
    _expires_at: datetime | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def current(self) -> Credential:
        async with self._lock:
            if self._held is None or (self._expires_at is not None and self.now() >= self._expires_at - LEEWAY):
                return await self._refresh()
            return self._held

    async def renewed(self, rejected: Credential) -> Credential | None:
        """Run the plugin again, unless that already happened since the given credential was issued."""
        async with self._lock:
            if self._held is not None and self._held != rejected:
                return self._held
            fresh = await self._refresh()
            return None if fresh == rejected else fresh

    async def _refresh(self) -> Credential:
        self._held = None
        has_terminal = sys.stdin is not None and sys.stdin.isatty()
        interactive = choose_interactive(self.plugin.interactive_mode, terminal=has_terminal)
        output = await run_plugin(self.plugin, self.cluster, interactive=interactive, timeout=self.timeout)
        credential, self._expires_at = parse_exec_credential(output, self.plugin)
        self._held = Credential(credential.authorization, credential.certificate, self.headers)
        return self._held


def choose_interactive(mode: str, *, terminal: bool) -> bool:
    """Decide whether the plugin may use the terminal; `ConfigError` when it must and there is none."""
    if mode == "Always" and not terminal:
        raise ConfigError("the credential plugin needs a terminal for input, and there is none")
    return terminal and mode != "Never"


def parse_exec_credential(output: bytes, plugin: ExecPlugin) -> tuple[Credential, datetime | None]:
    """Return the credential that a plugin printed and its expiry; invalid output is never quoted."""
    name = plugin.command
    try:
        answer = orjson.loads(output)
    except orjson.JSONDecodeError as cause:
        raise ConfigError(f"the credential plugin {name} printed something that is not an ExecCredential") from cause
    if not isinstance(answer, dict) or answer.get("kind") != "ExecCredential":
        raise ConfigError(f"the credential plugin {name} printed something that is not an ExecCredential")
    if answer.get("apiVersion") != plugin.api_version:
        raise ConfigError(f"the credential plugin {name} answered in another version than {plugin.api_version}")
    status = answer.get("status")
    if not isinstance(status, dict):
        raise ConfigError(f"the credential plugin {name} answered without a status")
    return _credential(status, name), _expiry(status, name)


def _credential(status: Mapping[str, Any], name: str) -> Credential:
    token, chain, key = (status.get(k) or "" for k in ("token", "clientCertificateData", "clientKeyData"))
    if not all(isinstance(value, str) for value in (token, chain, key)) or bool(chain) != bool(key):
        raise ConfigError(f"the credential plugin {name} answered with an incomplete credential")
    if not token and not chain:
        raise ConfigError(f"the credential plugin {name} answered without a token or a certificate")
    certificate = ClientCertificate(chain.encode(), Sensitive(key.encode())) if chain else None
    return Credential(bearer(token.encode()) if token else None, certificate)


def _expiry(status: Mapping[str, Any], name: str) -> datetime | None:
    text = status.get("expirationTimestamp")
    if text is None:
        return None
    instant = parse_rfc3339(text) if isinstance(text, str) else None
    if instant is None:
        raise ConfigError(f"the credential plugin {name} answered with an expirationTimestamp that is no time")
    return instant


async def run_plugin(plugin: ExecPlugin, cluster: Object, *, interactive: bool, timeout: float) -> bytes:  # noqa: ASYNC109 - reported in our own words
    """Run the program without a shell and return what it printed; it is killed when it takes too long."""
    program = find_program(plugin)
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            *plugin.arguments,
            env=plugin_environment(plugin, cluster, os.environ, interactive=interactive),
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=None if interactive else asyncio.subprocess.PIPE,
            start_new_session=not interactive,
            limit=MAX_DOCUMENT_BYTES,
        )
    except (OSError, ValueError) as cause:
        reason = (getattr(cause, "strerror", None) or "not a valid command").lower()
        raise ConfigError(f"the credential plugin {plugin.command} cannot be started: {reason}") from cause
    reading = [asyncio.ensure_future(_read(pipe)) for pipe in (process.stdout, process.stderr)]
    try:
        async with asyncio.timeout(timeout):
            output, stderr = await asyncio.gather(*reading)
            code = await process.wait()
    except TimeoutError as cause:
        raise ConfigError(
            f"the credential plugin {plugin.command} did not answer within {timeout:g} seconds"
        ) from cause
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        await _end(process, group=not interactive)
    if code != 0:
        raise ConfigError(f"the credential plugin {plugin.command} failed with exit code {code}{_last_line(stderr)}")
    return output


def find_program(plugin: ExecPlugin) -> str:
    """Return the program's absolute path: a bare name is searched in PATH, a path starts at the kubeconfig."""
    import shutil

    command = plugin.command
    if os.sep in command:
        command = str((plugin.folder or Path.cwd()) / command)
    found = shutil.which(command)
    if found is None or not os.path.isabs(found):  # noqa: PTH117 - PATH may name the working directory
        hint = f": {plugin.install_hint.strip()}" if plugin.install_hint.strip() else ""
        raise ConfigError(f"the credential plugin {plugin.command} is not installed{hint}")
    return found


def plugin_environment(
    plugin: ExecPlugin, cluster: Object, inherited: Mapping[str, str], *, interactive: bool
) -> dict[str, str]:
    spec: Object = {"interactive": interactive}
    if plugin.provide_cluster_info:
        spec["cluster"] = cluster
    exec_info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return {**inherited, **plugin.environment, "KUBERNETES_EXEC_INFO": orjson.dumps(exec_info).decode()}


async def _read(pipe: asyncio.StreamReader | None) -> bytes:
    if pipe is None:
        return b""
    data = b""
    while len(data) <= MAX_DOCUMENT_BYTES and (chunk := await pipe.read(65536)):
        data += chunk
    if len(data) > MAX_DOCUMENT_BYTES:
        raise ConfigError("the credential plugin printed more than a credential can be")
    return data


async def _end(process: asyncio.subprocess.Process, *, group: bool) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError, PermissionError):
            if group:
                os.killpg(process.pid, signal.SIGKILL)  # its own session, so that its child processes are killed too
            else:
                process.kill()
    with suppress(TimeoutError):  # drain the pipes, or their transports would outlive the loop
        async with asyncio.timeout(PIPE_DRAIN_SECONDS):
            await process.communicate()


def _last_line(stderr: bytes) -> str:
    lines = stderr.decode(errors="replace").strip().splitlines()
    return f": {''.join(c for c in lines[-1] if c.isprintable())[:200]}" if lines else ""
