"""The agent's deployment as a Klusterlet describes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    ADDON_NAMESPACE,
    AGENT_NAMESPACE,
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    Annotation,
)
from watchword.api.resources import NAMESPACES
from watchword.operator.rendering import (
    IMAGE,
    Manifest,
    Workload,
    account,
    cluster_rights,
    deployment,
    namespace_rights,
)

BOOTSTRAP_MOUNT = "/spoke/bootstrap"

WATCHED_RULES: list[Object] = [
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]},
    {
        "apiGroups": [""],
        "resources": ["namespaces"],
        "resourceNames": ["kube-system"],
        "verbs": ["get"],
    },
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["clusterclaims"],
        "verbs": ["get", "list", "watch"],
    },
    {
        "apiGroups": ["work.open-cluster-management.io"],
        "resources": ["appliedmanifestworks", "appliedmanifestworks/status"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["subjectaccessreviews"],
        "verbs": ["create"],
    },
    {"nonResourceURLs": ["/livez", "/healthz", "/version"], "verbs": ["get"]},
]
"""What the agent reads of its cluster, and the records it keeps."""

OWN_RULES: list[Object] = [
    {
        "apiGroups": [""],
        "resources": ["secrets"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"],
    },
    {
        "apiGroups": ["coordination.k8s.io"],
        "resources": ["leases"],
        "verbs": ["get", "list", "watch", "create", "update", "patch"],
    },
    {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
]
"""What it does in the namespaces that are its own."""

EXECUTION_ROLE = "admin"
"""The role with which work is applied; administrators bind more where their work needs it."""


def namespace_of(klusterlet: Object) -> str:
    """Return where the agent runs."""
    return str((klusterlet.get("spec") or {}).get("namespace") or AGENT_NAMESPACE)


def agent_flags(klusterlet: Object) -> list[str]:
    """Return the agent's command line, rendered from the spec; what is unset is left to the agent's defaults."""
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    registration: Mapping[str, Any] = spec.get("registrationConfiguration") or {}
    work: Mapping[str, Any] = spec.get("workConfiguration") or {}
    flags = [
        f"--spoke-cluster-name={spec.get('clusterName') or klusterlet['metadata']['name']}",
        f"--namespace={namespace_of(klusterlet)}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_MOUNT}/kubeconfig",
        f"--hub-kubeconfig-secret={HUB_KUBECONFIG_SECRET}",
        *_registration_flags(registration),
        *_addon_flags(registration.get("addOnKubeClientRegistrationDriver") or {}),
        *_work_flags(work),
    ]
    urls = [str(row.get("url")) for row in spec.get("externalServerURLs") or [] if row.get("url")]
    if urls:
        flags.append(f"--spoke-external-server-urls={','.join(urls)}")
    gates = feature_gates([*(registration.get("featureGates") or []), *(work.get("featureGates") or [])])
    return [*flags, *([f"--feature-gates={gates}"] if gates else [])]


def _registration_flags(registration: Mapping[str, Any]) -> list[str]:
    driver: Mapping[str, Any] = registration.get("registrationDriver") or {}
    flags = [f"--registration-auth={driver['authType']}"] if driver.get("authType") else []
    seconds = registration.get("clientCertExpirationSeconds")
    if seconds:
        flags.append(f"--client-cert-expiration-seconds={seconds}")
    for flag, field in (("--cluster-annotations", "clusterAnnotations"), ("--cluster-labels", "clusterLabels")):
        pairs = ",".join(f"{name}={value}" for name, value in sorted((registration.get(field) or {}).items()))
        if pairs:
            flags.append(f"{flag}={pairs}")
    claims: Mapping[str, Any] = registration.get("clusterClaimConfiguration") or {}
    if claims.get("maxCustomClusterClaims") is not None:
        flags.append(f"--max-custom-cluster-claims={claims['maxCustomClusterClaims']}")
    if claims.get("reservedClusterClaimSuffixes"):
        flags.append(f"--reserved-cluster-claim-suffixes={','.join(claims['reservedClusterClaimSuffixes'])}")
    return flags


def _addon_flags(driver: Mapping[str, Any]) -> list[str]:
    flags = [f"--addon-kubeclient-registration-auth={driver['authType']}"] if driver.get("authType") else []
    seconds = (driver.get("token") or {}).get("expirationSeconds")
    return [*flags, f"--addon-token-expiration-seconds={seconds}"] if seconds else flags


def _work_flags(work: Mapping[str, Any]) -> list[str]:
    known = {
        "appliedManifestWorkEvictionGracePeriod": "--appliedmanifestwork-eviction-grace-period",
        "statusSyncInterval": "--status-sync-interval",
    }
    return [f"{flag}={work[field]}" for field, flag in known.items() if work.get(field)]


def feature_gates(rows: list[Mapping[str, Any]]) -> str:
    """Return switches as one flag value; the last word on a feature counts."""
    chosen = {str(row.get("feature")): row.get("mode") == "Enable" for row in rows if row.get("feature")}
    return ",".join(f"{name}={'true' if on else 'false'}" for name, on in sorted(chosen.items()))


def agent_manifests(klusterlet: Object, *, image: str = IMAGE) -> list[Manifest]:
    """Return everything the agent needs, in an order in which it can be applied."""
    name = f"{klusterlet['metadata']['name']}-agent"
    namespace = namespace_of(klusterlet)
    subject = ObjectKey(namespace, f"{klusterlet['metadata']['name']}-sa")
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    workload = Workload(
        name=name,
        namespace=namespace,
        account=subject.name,
        image=str(spec.get("imagePullSpec") or image),
        arguments=["agent", *agent_flags(klusterlet)],
        secrets={BOOTSTRAP_KUBECONFIG_SECRET: BOOTSTRAP_MOUNT},
        pod=pod_fields(spec),
        resources=resources_of(spec),
    )
    prefix = f"open-cluster-management:{klusterlet['metadata']['name']}"
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace))),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(addon_namespace(namespace)))),
        account(subject.name, namespace, _account_annotations(spec)),
        *cluster_rights(f"{prefix}:agent", WATCHED_RULES, subject),
        *namespace_rights(ObjectKey(namespace, f"{prefix}:agent"), OWN_RULES, subject),
        *namespace_rights(ObjectKey(addon_namespace(namespace), f"{prefix}:agent"), OWN_RULES, subject),
        _execution_binding(f"{prefix}:work", subject),
        deployment(workload),
    ]


def addon_namespace(namespace: str) -> str:
    """Return where add-ons run beside an agent."""
    return ADDON_NAMESPACE if namespace == AGENT_NAMESPACE else f"{namespace}-addon"


def _execution_binding(name: str, subject: ObjectKey) -> Manifest:
    _, (resource, binding) = cluster_rights(name, (), subject)
    return resource, {**binding, "roleRef": {**binding["roleRef"], "name": EXECUTION_ROLE}}


def _account_annotations(spec: Mapping[str, Any]) -> dict[str, str]:
    aws = ((spec.get("registrationConfiguration") or {}).get("registrationDriver") or {}).get("awsIrsa") or {}
    arn = aws.get("managedClusterArn")
    return {Annotation.MANAGED_CLUSTER_ARN: str(arn)} if arn else {}


def pod_fields(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the pod that the spec decides: where it runs, how urgent it is, whom it knows."""
    placement: Mapping[str, Any] = spec.get("nodePlacement") or {}
    fields: dict[str, Any] = {name: placement[name] for name in ("nodeSelector", "tolerations") if placement.get(name)}
    if spec.get("priorityClassName"):
        fields["priorityClassName"] = spec["priorityClassName"]
    alias: Mapping[str, Any] = spec.get("hubApiServerHostAlias") or {}
    if alias:
        fields["hostAliases"] = [{"ip": alias["ip"], "hostnames": [alias["hostname"]]}]
    return fields


def resources_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what the container may use: little by default, nothing said under BestEffort."""
    requirement: Mapping[str, Any] = spec.get("resourceRequirement") or {}
    match requirement.get("type", "Default"):
        case "ResourceRequirement":
            return requirement.get("resourceRequirements") or {}
        case "BestEffort":
            return {}
        case _:
            return {"requests": {"cpu": "2m", "memory": "64Mi"}}
