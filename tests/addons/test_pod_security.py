"""Pods of built-in add-ons meet the Pod Security standard `restricted`."""

from __future__ import annotations

import pytest

from watchword.accounts.hub.definition import accounts_addon
from watchword.addons.definition import AddonDefinition, AddonInstance
from watchword.addons.sample.hub import SAMPLE
from watchword.api.addon import Addon
from watchword.api.cluster import Cluster
from watchword.testing.builders import a_cluster, an_addon


@pytest.mark.parametrize("definition", [SAMPLE, accounts_addon()], ids=lambda each: each.name)
def test_pods_of_an_addon_are_restricted(definition: AddonDefinition) -> None:
    instance = AddonInstance(Addon.read(an_addon(definition.name, cluster="edge-1")), Cluster.read(a_cluster("edge-1")))

    pods = [obj["spec"]["template"]["spec"] for obj in definition.manifests(instance) if obj["kind"] == "Deployment"]

    assert [pod["securityContext"] for pod in pods] == [
        {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    ]
    for container in pods[0]["containers"]:
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
