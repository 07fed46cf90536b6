"""Kubeconfig files: which are used, how their text is parsed, merged and written."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, structs

from watchword.api.meta import Object
from watchword.api.names import RESTRICTED_KUBECONFIGS
from watchword.api.sensitive import Sensitive
from watchword.api.yaml import YamlError, dump, load
from watchword.kube import kubeconfig
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import VERSIONS, ExecPlugin
from watchword.kube.files import read_small_file, write_private_file

T = TypeVar("T")
S = TypeVar("S", str, bytes)
E = TypeVar("E", kubeconfig.ClusterEntry, kubeconfig.ContextEntry)
_MODES = ("Never", "IfAvailable", "Always")
_NOWHERE = Path("/nonexistent")
_MOST_BRACKETS = 64  # of JSON that is read without the limits on the depth of YAML


def parse_kubeconfig(
    data: bytes, *, folder: Path | None = None, environment: Mapping[str, str] = os.environ
) -> kubeconfig.Kubeconfig:
    """Read a kubeconfig; relative file names in it start at `folder`."""
    document = _read_document(data)
    if document is None:
        return kubeconfig.Kubeconfig()  # kubectl, too, accepts an empty file as an empty configuration
    fields = _Fields(document, "the kubeconfig", folder, restricted=bool(environment.get(RESTRICTED_KUBECONFIGS)))
    if fields.text("kind") not in {"", "Config"} or fields.text("apiVersion") not in {"", "v1"}:
        raise ConfigError("the kubeconfig is of another kind than Config v1")
    return kubeconfig.Kubeconfig(
        clusters=fields.entries("clusters", "cluster", _entry(kubeconfig.ClusterEntry)),
        users=fields.entries("users", "user", _user),
        contexts=fields.entries("contexts", "context", _entry(kubeconfig.ContextEntry)),
        current_context=fields.text("current-context"),
        rest=fields.values,
    )


def _read_document(data: bytes) -> Any:
    """Return what the text holds: JSON, as `encode_kubeconfig` writes it, or any YAML; None when it is empty."""
    if not data:
        return None
    if data[:1] == b"{" and data.count(b"{") + data.count(b"[") <= _MOST_BRACKETS:
        try:
            return json.loads(data.decode(), object_pairs_hook=_unique, parse_float=_refuse, parse_constant=_refuse)
        except ValueError:
            pass  # YAML, which may begin like this, or what its reader refuses
    try:
        return load(data)
    except YamlError as cause:
        raise ConfigError(str(cause)) from cause


def _unique(pairs: list[tuple[str, Any]]) -> Object:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("a repeated name")


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def _read(kind: type[Struct], fields: _Fields) -> Object:
    """Return the fields of an entry that have a type of the file, by the names of the kind."""
    readers: Mapping[Any, Callable[[str], Any]] = {
        str: fields.text,
        bool: fields.truth,
        bytes: fields.data,
        Path | None: fields.path,
        Sensitive[str] | None: lambda name: _secret(fields.text(name)),
        Sensitive[bytes] | None: lambda name: _secret(fields.data(name)),
        tuple[str, ...]: fields.texts,
    }
    known = [each for each in structs.fields(kind) if each.type in readers]
    return {each.name: readers[each.type](each.encode_name) for each in known}


def _entry(kind: type[E]) -> Callable[[_Fields], E]:
    return lambda fields: kind(**_read(kind, fields), rest=fields.values)


def _user(fields: _Fields) -> kubeconfig.UserEntry:
    if fields.take("auth-provider", dict, {}):
        raise ConfigError(f"{fields.what} uses auth-provider, which Kubernetes removed: use an exec plugin")
    known = _read(kubeconfig.UserEntry, fields)
    plugin, impersonation = _plugin(fields.part("exec")), _impersonation(fields)
    return kubeconfig.UserEntry(**known, plugin=plugin, impersonation=impersonation, rest=fields.values)


def _impersonation(fields: _Fields) -> kubeconfig.Impersonation:
    known, extra = _read(kubeconfig.Impersonation, fields), fields.part("as-user-extra")
    values = {key: extra.texts(key) for key in list(extra.values)}
    if (known["uid"] or known["groups"] or values) and not known["user"]:
        raise ConfigError(f"{fields.what} impersonates groups or a uid without a user: set as")
    return kubeconfig.Impersonation(**known, extra=values)


def _plugin(fields: _Fields) -> ExecPlugin | None:
    if not fields.values:
        return None
    if fields.restricted:
        raise ConfigError(f"{fields.what} is an exec plugin, which pods of the process node do not run: use a token")
    version = fields.text("apiVersion")
    if version not in VERSIONS:
        raise ConfigError(f"{fields.what} must have apiVersion {VERSIONS[0]} or {VERSIONS[1]}")
    command = fields.text("command")
    if not command:
        raise ConfigError(f"{fields.what} names no command")
    mode = fields.text("interactiveMode") or ("IfAvailable" if version == VERSIONS[1] else "")
    if mode not in _MODES:
        raise ConfigError(f"{fields.what} must have an interactiveMode: {', '.join(_MODES)}")
    return ExecPlugin(
        command=command,
        arguments=fields.texts("args"),
        environment={pair.text("name"): pair.text("value") for pair in fields.parts("env")},
        api_version=version,
        interactive_mode=mode,
        install_hint=fields.text("installHint"),
        folder=fields.folder,
        provide_cluster_info=fields.truth("provideClusterInfo"),
    )


def _secret(value: S) -> Sensitive[S] | None:
    return Sensitive(value) if value else None


class _Fields:
    """A mapping from untrusted input; the type of each field is checked when it is read."""

    def __init__(self, value: Any, what: str, folder: Path | None, *, restricted: bool) -> None:
        if not isinstance(value, dict):
            raise ConfigError(f"{what} is not a mapping")
        self.values: Object = dict(value)
        self.what = what
        self.folder = folder
        self.restricted = restricted

    def take(self, name: str, kind: type[T], default: T) -> T:
        value = self.values.pop(name, None)
        if value is None:
            return default
        if not isinstance(value, kind):
            raise ConfigError(f"{self.what}: {name} has the wrong type")
        return value

    def text(self, name: str) -> str:
        return self.take(name, str, "")

    def truth(self, name: str) -> bool:
        return self.take(name, bool, False)

    def texts(self, name: str) -> tuple[str, ...]:
        values: list[Any] = self.take(name, list, [])
        if not all(isinstance(value, str) for value in values):
            raise ConfigError(f"{self.what}: {name} must be a list of strings")
        return tuple(values)

    def data(self, name: str) -> bytes:
        try:
            return base64.b64decode("".join(self.text(name).split()), validate=True)
        except (binascii.Error, ValueError) as cause:
            raise ConfigError(f"{self.what}: {name} is not base64") from cause

    def path(self, name: str) -> Path | None:
        text = self.text(name)
        if "\0" in text:
            raise ConfigError(f"{self.what}: {name} is not a file name")
        if not text:
            return None
        if not self.restricted:
            return (self.folder or Path()) / text
        # Without a folder the files are looked up in a Secret, by their names alone.
        folder = self.folder or _NOWHERE
        if ".." in Path(text).parts or not (folder / text).is_relative_to(folder):
            raise ConfigError(f"{self.what}: {name} names a file outside of the kubeconfig's folder: put it beside it")
        return folder / text

    def part(self, name: str) -> _Fields:
        return self._below(self.take(name, dict, {}), f"{self.what}: {name}")

    def _below(self, value: Any, what: str) -> _Fields:
        return _Fields(value, what, self.folder, restricted=self.restricted)

    def parts(self, name: str) -> list[_Fields]:
        values: list[Any] = self.take(name, list, [])
        return [self._below(value, f"{self.what}: {name}") for value in values]

    def entries(self, name: str, inner: str, read: Callable[[_Fields], T]) -> Mapping[str, T]:
        """Read a list of named entries; of a name given twice the first one counts, as in kubectl."""
        found: dict[str, T] = {}
        for entry in self.parts(name):
            label = entry.text("name")
            part = self._below(entry.take(inner, dict, {}), f"{inner} {label!r}")
            found.setdefault(label, read(part))
        return found


def read_kubeconfig(path: Path) -> kubeconfig.Kubeconfig:
    data = read_small_file(path, "kubeconfig")
    if not data.strip():
        raise ConfigError(f"kubeconfig {path} is empty")
    try:
        return parse_kubeconfig(data, folder=path.absolute().parent)
    except ConfigError as cause:
        raise ConfigError(f"kubeconfig {path} cannot be used: {cause}") from cause


def find_kubeconfigs(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the files that are used when none is named: `KUBECONFIG`, else the one in the home folder."""
    named = [Path(part) for part in environment.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path(environment.get("HOME") or "~").expanduser() / ".kube" / "config"]


def load_kubeconfig(path: Path | None = None, environment: Mapping[str, str] = os.environ) -> kubeconfig.Kubeconfig:
    """Read the named file, or merge the default ones; of several, missing and empty ones are skipped."""
    if path is not None:
        return read_kubeconfig(path)
    paths = find_kubeconfigs(environment)
    if not environment.get("KUBECONFIG") and not paths[0].exists():
        raise ConfigError(f"there is no kubeconfig at {paths[0]}: name one with --kubeconfig, or in KUBECONFIG")
    if len(paths) == 1:
        return read_kubeconfig(paths[0])
    present = [candidate for candidate in paths if candidate.exists() and candidate.stat().st_size]
    if not present:
        raise ConfigError("none of the files in KUBECONFIG exists: " + ", ".join(map(str, paths[:5])))
    return kubeconfig.merge([read_kubeconfig(candidate) for candidate in present])


def encode_kubeconfig(config: kubeconfig.Kubeconfig) -> bytes:
    """Return a kubeconfig for programs, as JSON, which an agent reads 10 ms faster than YAML; secrets are in it."""
    # orjson refuses integers beyond 64 bits, which a field that is only kept can hold.
    return json.dumps(kubeconfig.to_document(config), indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def dump_kubeconfig(config: kubeconfig.Kubeconfig) -> bytes:
    """Return a kubeconfig for people, as YAML, keys in the order in which client-go writes them; secrets are in it."""
    return yaml_of(encode_kubeconfig(config))


def yaml_of(encoded: bytes) -> bytes:
    """Return a kubeconfig that was written as JSON as YAML."""
    return dump(json.loads(encoded)).encode()


def write_kubeconfig(path: Path, config: kubeconfig.Kubeconfig) -> None:
    """Write a kubeconfig atomically, readable by its owner alone."""
    write_private_file(path, dump_kubeconfig(config))
