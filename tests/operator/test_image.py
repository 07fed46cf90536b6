"""The image recipe fits the manifests: no root, a read-only file system, no other source."""

from __future__ import annotations

import re
from pathlib import Path

from watchword.api.meta import ObjectKey
from watchword.api.resources import DEPLOYMENTS, KLUSTERLETS
from watchword.operator.klusterlet import agent_manifests

RECIPE = (Path(__file__).parents[2] / "deploy" / "Containerfile").read_text()


def test_the_image_runs_as_a_number_that_is_not_root() -> None:
    (user,) = re.findall(r"^USER (\S+)$", RECIPE, re.MULTILINE)

    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)  # kubelets check runAsNonRoot by number alone


def test_nothing_is_fetched_but_verified_wheels() -> None:
    assert not re.search(r"\b(curl|wget|apt-get|git clone|ADD)\b", RECIPE)
    assert RECIPE.count("pip install") == RECIPE.count("install --quiet --no-index") - 1 == 1
    assert "--require-hashes" in RECIPE


def test_pods_write_only_to_their_own_volume() -> None:
    klusterlet = KLUSTERLETS.manifest(ObjectKey.cluster("klusterlet"), spec={"clusterName": "edge"})
    (agent,) = [obj for resource, obj in agent_manifests(klusterlet) if resource is DEPLOYMENTS]
    container = agent["spec"]["template"]["spec"]["containers"][0]

    writable = [mount["mountPath"] for mount in container["volumeMounts"] if not mount.get("readOnly")]
    assert writable == ["/tmp"]
    assert "PYTHONDONTWRITEBYTECODE=1" in RECIPE
