"""What both reconcilers write on their own object: finalizer and status."""

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime

from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.conditions import Condition, is_true
from watchword.api.meta import Manifest, Object, ObjectKey, Resource, annotations_of, rows_at
from watchword.api.names import BOOTSTRAP_KUBECONFIG_SECRET, HUB_KUBECONFIG_SECRET, Annotation
from watchword.api.resources import DEPLOYMENTS, NAMESPACES
from watchword.api.time import rfc3339
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Forbidden, KubeError, NotFound
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import PkiError
from watchword.registration.hub.installation import EXECUTOR_GATE
from watchword.runtime.status import StatusChange, StatusWriter

AGENT_FEATURES = frozenset(
    {
        "AddonManagement",
        "ClusterClaim",
        "ClusterProperty",
        "ExecutorValidatingCaches",
        "MultipleHubs",
        "RawFeedbackJsonString",
        "V1beta1CSRAPICompatibility",
    }
)
HUB_FEATURES = frozenset(
    {
        "AddonManagement",
        "CleanUpCompletedManifestWork",
        "CloudEventsDrivers",
        "ClusterImporter",
        "ClusterProfile",
        "DefaultClusterSet",
        "ManagedClusterAutoApproval",
        ACCOUNTS_GATE,
        "ManifestWorkReplicaSet",
        EXECUTOR_GATE,
        "ResourceCleanup",
        "V1beta1CSRAPICompatibility",
    }
)


def is_enabled(obj: Object, feature: str) -> bool:
    return _switches(obj).get(feature, False)


def format_gates(obj: Object, known: frozenset[str]) -> list[str]:
    """Return the flag with the known switches; none when there are none."""
    chosen = [f"{name}={str(on).lower()}" for name, on in sorted(_switches(obj).items()) if name in known]
    return [f"--feature-gates={','.join(chosen)}"] if chosen else []


def _switches(obj: Object) -> dict[str, bool]:
    """Return the feature gates of a Klusterlet or ClusterManager; of several rows about one feature the last counts."""
    parts = ("registrationConfiguration", "workConfiguration", "addOnManagerConfiguration")
    rows = (row for part in parts for row in rows_at(obj, "spec", part, "featureGates"))
    return {str(row.get("feature")): row.get("mode") == "Enable" for row in rows}


APPLIED, AVAILABLE, PROGRESSING = "Applied", "Available", "Progressing"
HUB_CONNECTION_DEGRADED = "HubConnectionDegraded"
REGISTRATION_DEGRADED, WORK_DEGRADED = "RegistrationDesiredDegraded", "WorkDesiredDegraded"
HUB_REGISTRATION_DEGRADED = "HubRegistrationDegraded"
VALID_FEATURES = "ValidFeatureGates"


AGENT_REASONS = frozenset({"HubUnreachable", "HubRegistrationRefused"})
"""The reasons of HubConnectionDegraded that the agent gives, through annotations of its Secret."""


def decide_feature_gates(obj: Object, known: frozenset[str]) -> Condition:
    unknown = sorted(_switches(obj).keys() - known)
    if not unknown:
        return Condition.true(VALID_FEATURES, "FeatureGatesAllValid", "all feature gates are known")
    message = f"unknown and not passed on: {', '.join(unknown)}; known are {', '.join(sorted(known))}"
    return Condition.false(VALID_FEATURES, "InvalidFeatureGatesExisting", message)


def count_missing(deployment: Object | None) -> tuple[int, int]:
    if deployment is None:
        return 1, 1
    status = deployment.get("status") or {}
    wanted = int((deployment.get("spec") or {}).get("replicas", 1))
    if status.get("observedGeneration", 0) < (deployment["metadata"].get("generation") or 0):
        return wanted, wanted  # the newest generation was not observed yet
    return max(0, wanted - int(status.get("availableReplicas") or 0)), wanted


def describe_rollout(deployment: Object | None) -> str:
    """Return what a roll-out still lacks, empty when it is done; by the rules of `kubectl rollout status`."""
    if deployment is None:
        return "the Deployment does not exist"
    status, wanted = deployment.get("status") or {}, int((deployment.get("spec") or {}).get("replicas", 1))
    if status.get("observedGeneration", 0) < (deployment["metadata"].get("generation") or 0):
        return "the newest spec is not observed yet"
    updated, available = int(status.get("updatedReplicas") or 0), int(status.get("availableReplicas") or 0)
    if updated < wanted:
        return f"{updated} of {wanted} pods are updated"
    if int(status.get("replicas") or 0) > updated:
        return f"{int(status['replicas']) - updated} old pods still run"
    return "" if available >= updated else f"{available} of {updated} updated pods are available"


def decide_degraded(type_: str, deployment: Object | None) -> Condition:
    missing, wanted = count_missing(deployment)
    if not missing:
        return Condition.false(type_, "DeploymentsFunctional", "all replicas are available")
    name = deployment["metadata"]["name"] if deployment is not None else "the deployment"
    return Condition.true(type_, "UnavailablePods", f"{missing} of {wanted} replicas of {name} are not available")


def decide_available(deployment: Object | None, reason: str) -> Condition:
    if deployment is not None and (is_true(deployment, "Available") or not count_missing(deployment)[0]):
        return Condition.true(AVAILABLE, reason, "deployed and available")
    return Condition.false(AVAILABLE, "DeploymentNotAvailable", "deployed, and not available yet")


def decide_hub_connection(bootstrap: Object | None, hub: Object | None, *, now: datetime) -> Condition:
    noted = annotations_of(hub or {})  # by the agent, which removes it again
    if Annotation.HUB_UNREACHABLE in noted:
        message = f"the agent cannot reach the hub: {noted[Annotation.HUB_UNREACHABLE]}"
        return Condition.true(HUB_CONNECTION_DEGRADED, "HubUnreachable", message)
    if Annotation.NOT_REGISTERED in noted:
        message = f"the hub does not register this cluster: {noted[Annotation.NOT_REGISTERED]}"
        return Condition.true(HUB_CONNECTION_DEGRADED, "HubRegistrationRefused", message)
    if hub is None or not (hub.get("data") or {}).get("kubeconfig"):
        if not ((bootstrap or {}).get("data") or {}).get("kubeconfig"):
            message = (
                f"there is no Secret {BOOTSTRAP_KUBECONFIG_SECRET} with a kubeconfig to join with: run watchword join"
            )
            return Condition.true(HUB_CONNECTION_DEGRADED, "BootstrapSecretMissing", message)
        reason = "HubKubeConfigSecretMissing" if hub is None else "HubKubeConfigMissing"
        message = f"the agent has not joined yet: {HUB_KUBECONFIG_SECRET} holds no kubeconfig"
        return Condition.true(HUB_CONNECTION_DEGRADED, reason, message)
    if not hub["data"].get("cluster-name"):
        message = f"Secret {HUB_KUBECONFIG_SECRET} does not name the cluster: delete it to join again"
        return Condition.true(HUB_CONNECTION_DEGRADED, "ClusterNameMissing", message)
    return _decide_credential(hub["data"], now)


def _decide_credential(data: Mapping[str, str], now: datetime) -> Condition:
    if not _uses_certificate(data):
        return Condition.false(HUB_CONNECTION_DEGRADED, "HubConnectionFunctional", "the agent has a credential")
    if "tls.crt" not in data:
        message = "the agent has no certificate yet: if its request waits on the hub, run `watchword accept` there"
        return Condition.true(HUB_CONNECTION_DEGRADED, "HubKubeConfigMissing", message)
    try:
        certificate = parse_certificate(base64.b64decode(data["tls.crt"], validate=True))
    except (PkiError, binascii.Error):
        message = f"the certificate in {HUB_KUBECONFIG_SECRET} cannot be read: delete the Secret to join again"
        return Condition.true(HUB_CONNECTION_DEGRADED, "HubKubeConfigError", message)
    until = rfc3339(certificate.not_after)
    if certificate.not_after <= now:
        message = f"the agent's certificate expired at {until}: run watchword rejoin"
        return Condition.true(HUB_CONNECTION_DEGRADED, "HubKubeConfigUnauthorized", message)
    message = f"the agent has a certificate until {until}"
    return Condition.false(HUB_CONNECTION_DEGRADED, "HubConnectionFunctional", message)


def _uses_certificate(data: Mapping[str, str]) -> bool:
    """Whether the kubeconfig names a certificate; where it cannot be read, whether there is one."""
    try:
        kubeconfig = parse_kubeconfig(base64.b64decode(data["kubeconfig"]), environment={})  # nothing of it is run
        return kubeconfig.choose().user.certificate_file is not None
    except (KubeError, binascii.Error):
        return "tls.crt" in data


async def report_status(
    status: StatusWriter, resource: Resource, found: Object, said: Iterable[Condition], rows: Iterable[Manifest] = ()
) -> None:
    """Write conditions and what was deployed, in one request and only when something differs."""
    fields: Object = {"observedGeneration": found["metadata"].get("generation")}
    deployed = [(resource, obj, _reference(resource, ObjectKey.of(obj))) for resource, obj in rows]
    if deployed:
        fields["generations"] = [
            {**reference, "lastGeneration": obj["metadata"].get("generation") or 0}
            for resource, obj, reference in deployed
            if resource is DEPLOYMENTS
        ]
        fields["relatedResources"] = [reference for _, _, reference in deployed]
    await status.write(resource, found, StatusChange(conditions=tuple(said), fields=fields))


def _reference(resource: Resource, key: ObjectKey) -> Object:
    row = {"group": resource.group, "version": resource.version, "resource": resource.plural, "name": key.name}
    return {**row, "namespace": key.namespace} if key.namespace else row


async def describe_failure(client: Client, error: Exception, namespace: str, *, remedy: str) -> str:
    """Say why applying failed; where the namespace is gone, with the operator's rights in it, also what to do."""
    if not isinstance(error, Forbidden | NotFound):
        return str(error)
    try:
        found = await client.find(NAMESPACES, ObjectKey.cluster(namespace))
    except ApiStatusError:
        return str(error)
    if found is not None:
        return str(error)
    return f"the namespace {namespace} is gone, and with it the rights of the operator in it: run `{remedy}` again"
