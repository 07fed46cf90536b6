"""The names that other programs know are spelt as they know them, letter by letter."""

from __future__ import annotations

import pytest

from watchword.api import names
from watchword.api.names import ConditionType, Finalizer, Label


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        (names.cluster_role("edge"), "open-cluster-management:managedcluster:edge"),
        (names.registration_binding("edge"), "open-cluster-management:managedcluster:edge:registration"),
        (names.work_binding("edge"), "open-cluster-management:managedcluster:edge:work"),
        (names.COMMON_REGISTRATION_ROLE, "open-cluster-management:managedcluster:registration"),
        (names.COMMON_WORK_ROLE, "open-cluster-management:managedcluster:work"),
        (names.MANAGED_CLUSTERS_GROUP, "system:open-cluster-management:managed-clusters"),
        (names.cluster_group("edge"), "system:open-cluster-management:edge"),
        (names.cluster_group_plain("edge"), "open-cluster-management:edge"),
        (names.agent_user("edge", "a1"), "system:open-cluster-management:edge:a1"),
        (names.addon_group("edge", "weather"), "system:open-cluster-management:cluster:edge:addon:weather"),
        (names.addon_fleet_group("weather"), "system:open-cluster-management:addon:weather"),
        (
            names.addon_user("edge", "weather", "a1"),
            "system:open-cluster-management:cluster:edge:addon:weather:agent:a1",
        ),
        (names.addon_service_account("edge", "weather"), "edge-weather-agent"),
        (names.addon_service_account_short("weather"), "weather-agent"),
        (names.service_account_user("edge", "weather-agent"), "system:serviceaccount:edge:weather-agent"),
        (names.HUB_KUBECONFIG_SECRET, "hub-kubeconfig-secret"),
        (names.BOOTSTRAP_KUBECONFIG_SECRET, "bootstrap-hub-kubeconfig"),
        (names.CLUSTER_LEASE, "managed-cluster-lease"),
        (names.AGENT_NAMESPACE, "open-cluster-management-agent"),
        (names.ADDON_NAMESPACE, "open-cluster-management-agent-addon"),
        (names.HUB_NAMESPACE, "open-cluster-management-hub"),
    ],
)
def test_name_is_spelt_as_others_spell_it(name: str, spelling: str) -> None:
    assert name == spelling


@pytest.mark.parametrize(
    ("key", "spelling"),
    [
        (Label.CLUSTER_NAME, "open-cluster-management.io/cluster-name"),
        (Label.ADDON_NAME, "open-cluster-management.io/addon-name"),
        (Label.CLUSTER_SET, "cluster.open-cluster-management.io/clusterset"),
        (Finalizer.CLUSTER_ACCESS, "cluster.open-cluster-management.io/api-resource-cleanup"),
        (Finalizer.MANIFEST_WORK, "cluster.open-cluster-management.io/manifest-work-cleanup"),
        (ConditionType.HUB_ACCEPTED, "HubAcceptedManagedCluster"),
        (ConditionType.JOINED, "ManagedClusterJoined"),
        (ConditionType.AVAILABLE, "ManagedClusterConditionAvailable"),
        (ConditionType.TOKEN_INFRASTRUCTURE_READY, "TokenInfrastructureReady"),
        (ConditionType.ADDON_TOKEN_REFRESHED, "AddonTokenRefreshed"),
    ],
)
def test_key_is_spelt_as_others_read_it(key: str, spelling: str) -> None:
    assert key == spelling
