"""The fleet's CustomResourceDefinitions."""

from watchword.api.crds.addon import ADDON_TEMPLATE, CLUSTER_MANAGEMENT_ADDON, MANAGED_CLUSTER_ADDON
from watchword.api.crds.addon_config import ADDON_DEPLOYMENT_CONFIG
from watchword.api.crds.cluster import (
    CLUSTER_CLAIM,
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
)
from watchword.api.crds.operator import CLUSTER_MANAGER, KLUSTERLET
from watchword.api.crds.work import APPLIED_MANIFEST_WORK, MANIFEST_WORK

HUB_CRDS = (
    MANAGED_CLUSTER,
    MANAGED_CLUSTER_SET,
    MANAGED_CLUSTER_SET_BINDING,
    MANAGED_CLUSTER_ADDON,
    CLUSTER_MANAGEMENT_ADDON,
    ADDON_TEMPLATE,
    ADDON_DEPLOYMENT_CONFIG,
    MANIFEST_WORK,
    CLUSTER_MANAGER,
)
"""The kinds of a hub."""

MANAGED_CRDS = (CLUSTER_CLAIM, APPLIED_MANIFEST_WORK, KLUSTERLET)
"""The kinds of a managed cluster."""
