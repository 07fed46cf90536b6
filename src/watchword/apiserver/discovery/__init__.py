"""Discovery: which groups, versions and resources are served."""

from watchword.apiserver.discovery.documents import (
    aggregated,
    api_group,
    api_group_list,
    api_resource_list,
    api_versions,
    storage_version_hash,
)
from watchword.apiserver.discovery.serving import Discovery
from watchword.apiserver.discovery.version_info import version_info

__all__ = [
    "Discovery",
    "aggregated",
    "api_group",
    "api_group_list",
    "api_resource_list",
    "api_versions",
    "storage_version_hash",
    "version_info",
]
