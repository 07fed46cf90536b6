"""Discovery: which groups, versions and resources are served."""

from watchword.apiserver.discovery.documents import (
    DiscoveryHandler,
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    api_versions,
    storage_version_hash,
    version_info,
)

__all__ = [
    "DiscoveryHandler",
    "aggregated",
    "api_group",
    "api_group_list",
    "api_resource_list",
    "api_versions",
    "storage_version_hash",
    "version_info",
]
