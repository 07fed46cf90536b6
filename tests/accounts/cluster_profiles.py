"""The kind ClusterProfile, as far as the tests need it."""

from __future__ import annotations

from watchword.api.crds.schema import definition
from watchword.api.resources import CLUSTER_PROFILES
from watchword.kube.client import Client
from watchword.runtime.manifests import establish_crds

OUTLINE = """
spec object x-kubernetes-preserve-unknown-fields=true
status object x-kubernetes-preserve-unknown-fields=true
"""


async def install_cluster_profiles(client: Client) -> None:
    """Have a server serve ClusterProfiles with any content."""
    profile_kind = definition(CLUSTER_PROFILES, "A cluster.", OUTLINE)
    profile_kind["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    await establish_crds(client, [profile_kind], manager="test")
