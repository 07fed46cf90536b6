"""Waits until a hub that was just set up can be joined."""

from __future__ import annotations

from msgspec import Struct

from watchword.admin.deployment_trouble import await_deployments
from watchword.admin.hub_setup import HubSetup, cluster_manager
from watchword.admin.wait import ObjectWaiter
from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO, SIGNATURE_PREFIX
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.resources import CONFIG_MAPS, DEPLOYMENTS
from watchword.discovery.token_secret import TokenRecord
from watchword.operator.bundles import OPERATOR
from watchword.operator.cluster_manager_manifests import hub_manifests


async def await_hub(waiter: ObjectWaiter, setup: HubSetup, record: TokenRecord | None) -> None:
    """Return once the controllers run and have signed for the token; `NotReady` otherwise."""
    if setup.deploy:
        rows = hub_manifests(cluster_manager(setup))
        deployed = [ObjectKey.of(obj) for resource, obj in rows if resource is DEPLOYMENTS]
        await await_deployments(waiter.client, (OPERATOR, *deployed), waiter.patience, waiter.progress)
    if record is not None:
        advice = "is `watchword hub` running for this cluster? Its log says why it does not sign"
        await waiter.until(CONFIG_MAPS, CLUSTER_INFO, SignatureCondition(record.token.id), advice=advice)


class SignatureCondition(Struct, frozen=True):
    """Looks whether cluster-info is signed for a token."""

    token_id: str

    def __call__(self, found: Object | None) -> str:
        """Return what is missing."""
        if found is None:
            return "cluster-info is not published"
        refusal = annotations_of(found).get(ANNOTATION_SIGNING_REFUSED)
        if refusal:
            return f"cluster-info is not signed because {refusal}"
        signed = (found.get("data") or {}).get(SIGNATURE_PREFIX + self.token_id)
        return "" if signed else f"cluster-info is not signed for token {self.token_id} yet"
