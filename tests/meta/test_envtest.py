"""The real control plane is found where it should be, and built as described."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.envtest import link_flags, wrapper_module
from watchword.testing.errors import AssetsMissing
from watchword.testing.kube_apiserver_backend import KUBERNETES_VERSION, cache_folder, find_assets

PUBLISHED = """\
module k8s.io/kubernetes

go 1.25.0

require k8s.io/api v0.0.0

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
"""


def _folder_with(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_text("#!/bin/sh\n")
    return folder


def test_staging_folders_become_published_releases() -> None:
    assert wrapper_module(PUBLISHED, "v1.35.4").splitlines() == [
        "module envtest",
        "go 1.25.0",
        "require k8s.io/kubernetes v1.35.4",
        "replace k8s.io/api => k8s.io/api v0.35.4",
        "replace k8s.io/client-go => k8s.io/client-go v0.35.4",
    ]


def test_version_is_stamped_into_the_binaries() -> None:
    assert f"-X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}" in link_flags(KUBERNETES_VERSION)


def test_named_folder_wins_over_the_cache(tmp_path: Path) -> None:
    named = _folder_with(tmp_path / "mine", "kube-apiserver", "etcd")
    environment = {"KUBEBUILDER_ASSETS": str(named), "XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    _folder_with(cache_folder(environment), "kube-apiserver", "etcd")

    assets = find_assets(environment)

    assert (assets.kube_apiserver, assets.etcd) == (named / "kube-apiserver", named / "etcd")


def test_release_of_the_variable_has_its_own_folder(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "ENVTEST_K8S_VERSION": "v1.34.4", "PATH": ""}
    folder = _folder_with(tmp_path / "watchword" / "envtest" / "v1.34.4", "kube-apiserver", "etcd")

    assert find_assets(environment).folder == folder


@pytest.mark.parametrize("named", ["1.34.4", "v1.34", "v1.34.4/../v1.35.4", "latest"])
def test_text_that_is_no_release_is_refused(named: str) -> None:
    with pytest.raises(AssetsMissing, match="is no release: write it as v1"):
        cache_folder({"ENVTEST_K8S_VERSION": named})


@pytest.mark.parametrize(
    ("built", "message"),
    [
        pytest.param([], "no kube-apiserver was built: run `make envtest`", id="nothing built"),
        pytest.param(["kube-apiserver"], "etcd is missing: put it into", id="no etcd"),
    ],
)
def test_missing_binaries_are_named_with_the_way_out(tmp_path: Path, built: list[str], message: str) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path), "PATH": ""}
    _folder_with(cache_folder(environment), *built)

    with pytest.raises(AssetsMissing, match=message):
        find_assets(environment)


def test_companion_that_was_not_built_is_named(tmp_path: Path) -> None:
    folder = _folder_with(tmp_path / "assets", "kube-apiserver", "etcd")

    with pytest.raises(AssetsMissing, match="kubeadm is missing"):
        find_assets({"KUBEBUILDER_ASSETS": str(folder), "PATH": ""}).companion("kubeadm")
