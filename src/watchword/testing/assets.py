"""Finds the binaries of a real control plane."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct

from watchword.testing.errors import AssetsMissing

KUBERNETES_VERSION = "v1.35.4"
"""The release that `make envtest` builds and the suites run on unless VERSION names another."""

ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"
VERSION_VARIABLE = "ENVTEST_K8S_VERSION"
RELEASE = re.compile(r"v1\.\d{1,3}\.\d{1,3}")
REQUIRED = ("etcd", "kube-apiserver")


class Assets(Struct, frozen=True):
    """The binaries of a real control plane."""

    folder: Path
    etcd: Path

    @property
    def kube_apiserver(self) -> Path:
        """The API server."""
        return self.folder / "kube-apiserver"

    def companion(self, name: str) -> Path:
        """Return kube-controller-manager, kubectl or kubeadm; `AssetsMissing` when it was not built."""
        path = self.folder / name
        if not path.is_file():
            raise AssetsMissing(f"{path} is missing: run `make envtest`")
        return path


def chosen_release(environment: Mapping[str, str] = os.environ) -> str:
    """Return the release that `ENVTEST_K8S_VERSION` names, else the default; `AssetsMissing` when it is not one."""
    named = environment.get(VERSION_VARIABLE) or KUBERNETES_VERSION
    if not RELEASE.fullmatch(named):
        raise AssetsMissing(f"{VERSION_VARIABLE}={named!r} is no release: write it as {KUBERNETES_VERSION}")
    return named


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that `make envtest` fills, one per release."""
    root = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "watchword" / "envtest" / chosen_release(environment)


def find_assets(environment: Mapping[str, str] = os.environ) -> Assets:
    """Return what `KUBEBUILDER_ASSETS` names or `make envtest` built; `AssetsMissing` otherwise."""
    named = environment.get(ASSETS_VARIABLE)
    folder = Path(named) if named else cache_folder(environment)
    if not (folder / "kube-apiserver").is_file():
        where = f"{ASSETS_VARIABLE}={named} has no kube-apiserver" if named else "no kube-apiserver was built"
        raise AssetsMissing(f"{where}: run `make envtest` or point {ASSETS_VARIABLE} at a folder with {REQUIRED}")
    etcd = find_etcd(folder, environment)
    if etcd is None:
        raise AssetsMissing(f"etcd is missing: put it into {folder} or on the PATH, or run `make envtest`")
    return Assets(folder, etcd)


def find_etcd(folder: Path, environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return etcd from the API server's folder, else from the search path."""
    beside = folder / "etcd"
    if beside.is_file():
        return beside
    found = shutil.which("etcd", path=environment.get("PATH"))
    return Path(found) if found else None
