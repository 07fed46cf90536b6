"""The fleet's CustomResourceDefinitions."""

from watchword.api.crds import addon, cluster, operator, work

HUB_CRDS = (
    cluster.MANAGED_CLUSTER,
    cluster.MANAGED_CLUSTER_SET,
    cluster.MANAGED_CLUSTER_SET_BINDING,
    addon.MANAGED_CLUSTER_ADDON,
    addon.CLUSTER_MANAGEMENT_ADDON,
    addon.ADDON_TEMPLATE,
    addon.ADDON_DEPLOYMENT_CONFIG,
    work.MANIFEST_WORK,
    operator.CLUSTER_MANAGER,
)
"""The kinds of a hub."""

MANAGED_CRDS = (cluster.CLUSTER_CLAIM, work.APPLIED_MANIFEST_WORK, operator.KLUSTERLET)
"""The kinds of a managed cluster."""
