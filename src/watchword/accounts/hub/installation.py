"""What the hub side needs on a hub: the kinds, the admission policy, and the entry in the list of add-ons."""

from __future__ import annotations

from watchword.accounts.hub.secret_policy import policy_manifests
from watchword.api.accounts import ADDON_NAME
from watchword.api.addon import SERVED_IN_PROCESS
from watchword.api.crds.accounts import ACCOUNT_CRDS
from watchword.api.meta import Manifest, ObjectKey
from watchword.api.names import Annotation
from watchword.api.resources import CLUSTER_MANAGEMENT_ADDONS, CUSTOM_RESOURCE_DEFINITIONS
from watchword.kube.client import Client
from watchword.runtime.manifests import apply_manifests

FIELD_MANAGER = "watchword-accounts"


async def install(client: Client, *, served: str = SERVED_IN_PROCESS) -> None:
    """Apply everything; what is there already as wanted stays as it is."""
    await apply_manifests(client, manifests(served=served), manager=FIELD_MANAGER)


def manifests(*, served: str = SERVED_IN_PROCESS) -> list[Manifest]:
    """Return what the hub side needs, in an order in which it can be applied."""
    about = {
        "displayName": "Managed service accounts",
        "description": "Keeps service accounts on clusters and reports their tokens to the hub.",
    }
    addon = CLUSTER_MANAGEMENT_ADDONS.manifest(
        ObjectKey.cluster(ADDON_NAME),
        metadata={"annotations": {Annotation.ADDON_MANAGER: served}},
        spec={"addOnMeta": about},
    )
    definitions = [(CUSTOM_RESOURCE_DEFINITIONS, definition) for definition in ACCOUNT_CRDS]
    return [*definitions, *policy_manifests(), (CLUSTER_MANAGEMENT_ADDONS, addon)]
