"""Builds the real control plane that the suites are judged by, once, from Kubernetes' own Go modules."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from watchword.testing.errors import AssetsMissing
from watchword.testing.kube_apiserver_backend import ASSETS_VARIABLE, cache_folder, chosen_release, find_assets

# etcd in the very version that this Kubernetes is tested with: its own module file names it.
PACKAGES = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "kubeadm": "k8s.io/kubernetes/cmd/kubeadm",
}
NODE_PACKAGES = {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kubelet", "kube-scheduler", "kube-proxy")}
TEST_PACKAGES = {"e2e.test": "k8s.io/kubernetes/test/e2e"}  # Kubernetes' own conformance tests
STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


def main() -> None:
    """Build what is missing and say where everything is."""
    try:
        if not os.environ.get(ASSETS_VARIABLE):
            provide(cache_folder())
        assets = find_assets()
    except AssetsMissing as error:
        stop(str(error))
    print(f"kube-apiserver and companions: {assets.folder}\netcd: {assets.etcd}")


def provide(folder: Path, names: Iterable[str] = PACKAGES) -> None:
    """Fill the folder with these binaries of the chosen release; instant when they are there."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = list(names)
    if missing_from(folder, wanted):
        with alone_in(folder):
            for stale in folder.glob(".build-*"):  # of a build that was killed
                shutil.rmtree(stale)
            for name in missing_from(folder, wanted):  # again: another build may have just ended
                build(name, folder)


def missing_from(folder: Path, names: Iterable[str] = PACKAGES) -> list[str]:
    """Return the binaries that are not there yet."""
    return [name for name in names if not (folder / name).is_file()]


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Let one build at a time fill the folder."""
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(name: str, folder: Path) -> None:
    """Compile one command into the folder; a build cut short leaves no binary behind."""
    release = chosen_release()
    go = shutil.which("go") or stop(f"go is missing: install Go 1.25 or newer to build what Kubernetes {release} needs")
    print(f"building {name} for Kubernetes {release} (several minutes the first time)", flush=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as work:
        write_module(go, Path(work), release)
        out = Path(work) / name
        verb = ["test", "-c"] if name in TEST_PACKAGES else ["build"]
        command = [go, *verb, "-mod=mod", "-trimpath", "-ldflags", link_flags(release), "-o", str(out)]
        run([*command, {**PACKAGES, **NODE_PACKAGES, **TEST_PACKAGES}[name]], work)
        out.replace(folder / name)


def write_module(go: str, work: Path, release: str) -> None:
    """Write a module that requires Kubernetes, with its staging modules at their published versions."""
    found = run([go, "mod", "download", "-json", f"k8s.io/kubernetes@{release}"], str(work))
    published = Path(json.loads(found)["GoMod"]).read_text()
    (work / "go.mod").write_text(wrapper_module(published, release))


def wrapper_module(published: str, version: str) -> str:
    """Return a go.mod from Kubernetes' own: it replaces staging modules by folders, we by releases."""
    staged = re.findall(r"^\s*(?:replace )?(k8s\.io/\S+) => \./staging/", published, re.MULTILINE)
    language = re.findall(r"^(?:go|godebug) .*$", published, re.MULTILINE)
    released = version.replace("v1.", "v0.", 1)
    replaced = [f"replace {module} => {module} {released}" for module in staged]
    return "\n".join(["module envtest", *language, f"require k8s.io/kubernetes {version}", *replaced, ""])


def link_flags(release: str) -> str:
    """Return the flags that stamp the version, as Kubernetes' own build does."""
    major, minor, _ = release.lstrip("v").split(".")
    values = {"gitVersion": release, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    return "-s -w " + " ".join(f"-X {package}.{key}={value}" for package in STAMPED for key, value in values.items())


def run(command: list[str], folder: str) -> str:
    """Run one step and return what it printed; a failure ends the build with the step's own words."""
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        stop(f"`{' '.join(command[:3])}` failed (see above)")
    return done.stdout


def stop(message: str) -> NoReturn:
    """End with one sentence."""
    sys.exit(f"envtest: {message}")


if __name__ == "__main__":
    main()
