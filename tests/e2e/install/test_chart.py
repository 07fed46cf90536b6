"""The chart and the kustomize bases are what `watchword manifests` prints, and Helm installs and removes them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.install.conftest import ROOT

from tools.chart import rendered_files
from tools.helm import find_helm
from watchword.api.yaml import dump, load, load_all
from watchword.operator.installation import read_installation

HELM = find_helm()
CHART = ROOT / "deploy" / "chart"
BASES = ROOT / "deploy" / "kustomize"
needs_helm = pytest.mark.skipif(HELM is None, reason="helm is not installed: run `make helm`")
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
EVERYWHERE: dict[str, Any] = {
    "image": {"registry": "registry.example", "repository": "mirror/watchword", "tag": "7"},
    "imagePullSecrets": [{"name": "first"}, {"name": "second"}],
    "nodePlacement": {"nodeSelector": {"role": "infra"}, "tolerations": [{"key": "role", "operator": "Exists"}]},
    "networkPolicy": {"enabled": True},
    "podMonitor": {"enabled": True},
    "serviceMonitor": {"enabled": True},
    "operator": {"replicas": 2, "resources": {"limits": {"memory": "1Gi"}}},
}
DRIVERS = {"registrationDrivers": [{"authType": "csr"}, {"authType": "token"}]}
GATES = {"featureGates": [{"feature": "ManagedClusterAutoApproval", "mode": "Enable"}]}
SETTINGS = [
    pytest.param("hub", {"hub": {}}, id="a hub by default"),
    pytest.param("hub", {**EVERYWHERE, "hub": {"replicas": 3, "resources": {"requests": {"cpu": "1"}}}}, id="a hub"),
    pytest.param("hub", {"hub": {"registrationConfiguration": {**DRIVERS, **GATES}}}, id="drivers and feature gates"),
    pytest.param("hub", {"image": {"digest": f"sha256:{'0' * 64}"}, "hub": {}}, id="an image by digest"),
    pytest.param("agent", {"agent": {"clusterName": "123"}}, id="an agent by default"),
    pytest.param(
        "agent",
        {**EVERYWHERE, "agent": {"clusterName": "edge", "klusterletName": "other", "namespace": "elsewhere"}},
        id="an agent in a namespace of its own",
    ),
    pytest.param("pull-secrets", {"pullSecrets": {}}, id="pull secrets by default"),
    pytest.param(
        "pull-secrets",
        {**EVERYWHERE, "pullSecrets": {"registries": ["a.example", "b.example"], "audience": "x", "onlyUsed": True}},
        id="pull secrets",
    ),
]


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def objects_by_name(text: str) -> dict[tuple[str, str, str], Any]:
    """Return the objects of a YAML text, which must be different ones."""
    objects = [obj for obj in load_all(text) if obj]
    named = {(obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): obj for obj in objects}
    assert len(named) == len(objects)
    return named


def manifests(part: str, *flags: object) -> dict[tuple[str, str, str], Any]:
    return objects_by_name(run(sys.executable, "-m", "watchword", "manifests", part, *flags))


def test_rendered_files_are_those_that_the_code_renders() -> None:
    assert {path for path, text in rendered_files().items() if path.read_text() != text} == set()


def test_values_file_of_the_chart_has_the_defaults_of_the_code() -> None:
    assert read_installation(load((CHART / "values.yaml").read_text())) == read_installation({})


@needs_helm
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("part", "values"), SETTINGS)
def test_chart_renders_what_manifests_prints(part: str, values: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    section = {"pull-secrets": "pullSecrets"}.get(part, part)
    file.write_text(dump({**values, section: {**values[section], "enabled": True}}))

    rendered = run(HELM, "template", "watchword", CHART, "--no-hooks", "--include-crds", "--values", file)

    kinds = set() if part != "pull-secrets" else {key for key in objects_by_name(rendered) if key[0].startswith("Cust")}
    assert {key: obj for key, obj in objects_by_name(rendered).items() if key not in kinds} == manifests(
        part, "--values", file
    )


@needs_helm
def test_helm_has_no_objection_to_the_chart() -> None:
    everything = ("hub.enabled=true", "agent.enabled=true", "agent.clusterName=edge", "pullSecrets.enabled=true")

    run(HELM, "lint", "--strict", CHART, *(word for value in everything for word in ("--set", value)))


@needs_kubectl
@pytest.mark.parametrize(
    ("part", "flags"),
    [
        pytest.param("hub", (), id="hub"),
        pytest.param("agent", ("--cluster-name=cluster1",), id="agent"),
        pytest.param("pull-secrets", (), id="pull secrets"),
    ],
)
def test_kustomize_base_is_what_manifests_prints(part: str, flags: tuple[str, ...]) -> None:
    found = {} if part == "pull-secrets" else objects_by_name(run("kubectl", "kustomize", BASES / "kinds"))
    found |= objects_by_name(run("kubectl", "kustomize", BASES / part))
    wanted = manifests(part, *flags)
    for deployed in (obj for obj in wanted.values() if obj["kind"] in ("ClusterManager", "Klusterlet")):
        del deployed["spec"]["imagePullSpec"]  # the operator deploys its own image
    assert found == wanted


@needs_kubectl
def test_overlay_names_the_image_once(tmp_path: Path) -> None:
    shutil.copytree(BASES, tmp_path / "kustomize")
    overlay = tmp_path / "kustomize" / "overlay"
    overlay.mkdir()
    image = {"name": "registry.invalid/watchword", "newName": "registry.example/watchword", "newTag": "7"}
    text = dump({"resources": ["../hub"], "images": [image]})
    (overlay / "kustomization.yaml").write_text(text)

    found = objects_by_name(run("kubectl", "kustomize", overlay))

    operator = found["Deployment", "open-cluster-management", "watchword-operator"]
    assert operator["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/watchword:7"
    assert "registry.invalid" not in dump(list(found.values()))
