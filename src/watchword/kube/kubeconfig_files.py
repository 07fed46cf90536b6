"""Kubeconfig files: which are used, how they are merged, and how one is written."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watchword.api.yaml import dump
from watchword.kube.errors import ConfigError
from watchword.kube.files import read_small_file, write_private_file
from watchword.kube.kubeconfig import Kubeconfig, merge, to_document
from watchword.kube.kubeconfig_parser import parse_kubeconfig


def read_kubeconfig(path: Path) -> Kubeconfig:
    """Read one file; `ConfigError` names it when it cannot be used."""
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


def load_kubeconfig(path: Path | None = None, environment: Mapping[str, str] = os.environ) -> Kubeconfig:
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
    return merge([read_kubeconfig(candidate) for candidate in present])


def dump_kubeconfig(config: Kubeconfig) -> bytes:
    """Return the text of a kubeconfig, keys in the order in which client-go writes them; secrets are in it."""
    return dump(_sorted(to_document(config))).encode()


def _sorted(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def write_kubeconfig(path: Path, config: Kubeconfig) -> None:
    """Write a kubeconfig atomically, readable by its owner alone."""
    write_private_file(path, dump_kubeconfig(config))
