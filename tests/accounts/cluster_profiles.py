"""The kind ClusterProfile, as far as the tests need it."""

from __future__ import annotations

from watchword.api.crds.schema import definition, version
from watchword.api.meta import Object
from watchword.api.resources import CLUSTER_PROFILES
from watchword.kube.client import Client
from watchword.runtime.manifests import establish_crds

OPEN: Object = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


async def install_cluster_profiles(client: Client) -> None:
    """Have a server serve ClusterProfiles with any content."""
    schema = version("v1alpha1", "A cluster.", {"spec": OPEN, "status": OPEN})
    profile_kind = definition(CLUSTER_PROFILES, schema)
    profile_kind["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved, for a test"}
    await establish_crds(client, [profile_kind], manager="test")
