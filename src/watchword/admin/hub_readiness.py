"""Waits until a hub that was just set up can be joined."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.admin.hub_setup import HubSetup, cluster_manager
from watchword.admin.wait import ObjectWaiter
from watchword.api.bootstrap import ANNOTATION_SIGNING_REFUSED, CLUSTER_INFO, SIGNATURE_PREFIX
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.resources import CONFIG_MAPS, DEPLOYMENTS
from watchword.discovery.token_secret import TokenRecord
from watchword.operator.cluster_manager_manifests import hub_manifests

NOT_RUNNING = "the controllers do not run yet"


async def await_hub(waiter: ObjectWaiter, setup: HubSetup, record: TokenRecord | None) -> None:
    """Return once the controllers run and have signed for the token; `NotReady` otherwise."""
    for resource, obj in hub_manifests(cluster_manager(setup)) if setup.deploy else ():
        if resource is DEPLOYMENTS:
            key = ObjectKey.of(obj)
            advice = f"look at the pods of the Deployment {key}, or run `watchword hub` elsewhere and use --no-deploy"
            await waiter.until(DEPLOYMENTS, key, validate_deployment_available, advice=advice)
    if record is not None:
        advice = "is `watchword hub` running for this cluster? Its log says why it does not sign"
        await waiter.until(CONFIG_MAPS, CLUSTER_INFO, SignatureCondition(record.token.id), advice=advice)


def validate_deployment_available(found: Object | None) -> str:
    """Return what a Deployment still lacks; empty when it runs."""
    return "" if found is not None and is_true(found, "Available") else NOT_RUNNING


@dataclass(frozen=True, slots=True)
class SignatureCondition:
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
