"""Builds Helm once from its own Go module, for the checks of the chart."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tools.envtest import alone_in
from watchword.testing.kube_apiserver_backend import KUBERNETES_VERSION

HELM_VERSION = "v3.19.0"
HELM_VARIABLE = "HELM"
CHARTUTIL = "helm.sh/helm/v3/pkg/chartutil"


def main() -> None:
    """Build Helm unless it is there, and print where it is."""
    print(f"helm: {find_helm() or build_helm()}")


def find_helm(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the Helm that $HELM names, that `make helm` built, or that is installed; None when there is none."""
    named = environment.get(HELM_VARIABLE) or str(helm_folder(environment) / "helm")
    found = shutil.which(named) or shutil.which("helm", path=environment.get("PATH"))
    return Path(found) if found else None


def helm_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder that `make helm` fills, one per release."""
    root = environment.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "watchword" / "helm" / HELM_VERSION


def build_helm() -> Path:
    """Compile Helm into its folder; the Go checksum database vouches for the source."""
    go = shutil.which("go") or sys.exit("helm: go is missing: install Go 1.24 or newer, or name a Helm with HELM=PATH")
    folder = helm_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with alone_in(folder):
        print(f"building Helm {HELM_VERSION} (several minutes the first time)", flush=True)
        command = [go, "install", "-trimpath", "-ldflags", link_flags(), f"helm.sh/helm/v3/cmd/helm@{HELM_VERSION}"]
        subprocess.run(command, env={**os.environ, "GOBIN": str(folder)}, check=True)
    return folder / "helm"


def link_flags() -> str:
    """Return the flags that tell Helm which Kubernetes a chart is rendered for, as its own build does."""
    major, minor, _ = KUBERNETES_VERSION.lstrip("v").split(".")
    return f"-s -w -X {CHARTUTIL}.k8sVersionMajor={major} -X {CHARTUTIL}.k8sVersionMinor={minor}"


if __name__ == "__main__":
    main()
