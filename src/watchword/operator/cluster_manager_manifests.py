"""The hub's deployment as a ClusterManager describes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE, KUBE_CLIENT_SIGNER
from watchword.api.resources import CRON_JOBS, NAMESPACES
from watchword.operator.klusterlet_manifests import feature_gates, pod_fields, resources_of
from watchword.operator.rendering import IMAGE, Manifest, Workload, account, cluster_rights, deployment, labels_for

CONTROLLER_ACCOUNT = "registration-controller-sa"
CLEANER_ACCOUNT = "cluster-cleaner-sa"
CLEANER = "cluster-cleaner"
FLEET_GROUPS = [
    "cluster.open-cluster-management.io",
    "addon.open-cluster-management.io",
    "work.open-cluster-management.io",
]
ALL_VERBS = ["get", "list", "watch", "create", "update", "patch", "delete"]

CONTROLLER_RULES: list[Object] = [
    {"apiGroups": FLEET_GROUPS, "resources": ["*"], "verbs": ALL_VERBS},
    {"apiGroups": ["register.open-cluster-management.io"], "resources": ["*"], "verbs": ["update", "create", "renew"]},
    {"apiGroups": [""], "resources": ["namespaces", "serviceaccounts"], "verbs": ALL_VERBS},
    {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"]},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ALL_VERBS},
    {"apiGroups": ["", "events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch", "update"]},
    {
        "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        "verbs": ALL_VERBS,
    },
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["certificatesigningrequests", "certificatesigningrequests/approval"],
        "verbs": ["get", "list", "watch", "create", "update"],
    },
    {
        "apiGroups": ["certificates.k8s.io"],
        "resources": ["signers"],
        "resourceNames": [KUBE_CLIENT_SIGNER],
        "verbs": ["approve"],
    },
    {"apiGroups": ["authorization.k8s.io"], "resources": ["subjectaccessreviews"], "verbs": ["create"]},
    {
        "apiGroups": ["admissionregistration.k8s.io"],
        "resources": ["validatingadmissionpolicies", "validatingadmissionpolicybindings"],
        "verbs": ["get", "list", "watch", "create", "patch"],
    },
    {
        "apiGroups": ["apiextensions.k8s.io"],
        "resources": ["customresourcedefinitions"],
        "verbs": ["get", "list", "watch", "create", "patch"],
    },
    # The probe asks whether a joining cluster could accept itself, as nobody in particular.
    {
        "apiGroups": [""],
        "resources": ["users"],
        "resourceNames": ["watchword:acceptance-probe"],
        "verbs": ["impersonate"],
    },
    {
        "apiGroups": [""],
        "resources": ["groups"],
        "resourceNames": ["system:bootstrappers:managedcluster"],
        "verbs": ["impersonate"],
    },
    # Tokens, their signatures, and what joining clusters are told.
    {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch", "create", "patch", "update"]},
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "delete", "patch"]},
]
"""What the controllers may do. They hand out only rights they hold themselves."""

CLEANER_RULES: list[Object] = [
    {
        "apiGroups": ["cluster.open-cluster-management.io"],
        "resources": ["managedclusters"],
        "verbs": ["get", "list", "delete"],
    }
]
"""All that the clean-up of left-over clusters needs."""


def hub_flags(manager: Object) -> list[str]:
    """Return the controllers' command line, rendered from the spec."""
    registration: Mapping[str, Any] = (manager.get("spec") or {}).get("registrationConfiguration") or {}
    drivers: list[Mapping[str, Any]] = registration.get("registrationDrivers") or []
    names = [str(driver.get("authType") or "csr") for driver in drivers]
    users = [str(user) for user in registration.get("autoApproveUsers") or []]
    users += [str(user) for driver in drivers for user in (driver.get("csr") or {}).get("autoApprovedIdentities") or []]
    flags = [f"--namespace={HUB_NAMESPACE}"]
    if names:
        flags.append(f"--enabled-registration-drivers={','.join(names)}")
    flags += [f"--auto-approved-csr-users={user}" for user in dict.fromkeys(users)]
    gates = feature_gates(list(_all_gates(manager.get("spec") or {})))
    return [*flags, *([f"--feature-gates={gates}"] if gates else [])]


def _all_gates(spec: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for part in ("registrationConfiguration", "workConfiguration", "addOnManagerConfiguration"):
        yield from (spec.get(part) or {}).get("featureGates") or []


def hub_manifests(manager: Object, *, image: str = IMAGE) -> list[Manifest]:
    """Return everything the hub's controllers need, in an order in which it can be applied."""
    name = f"{manager['metadata']['name']}-controller"
    spec: Mapping[str, Any] = manager.get("spec") or {}
    chosen = str(spec.get("imagePullSpec") or image)
    subject = ObjectKey(HUB_NAMESPACE, CONTROLLER_ACCOUNT)
    cleaner = ObjectKey(HUB_NAMESPACE, CLEANER_ACCOUNT)
    workload = Workload(
        name=name,
        namespace=HUB_NAMESPACE,
        account=subject.name,
        image=chosen,
        arguments=["hub", *hub_flags(manager)],
        pod=pod_fields(spec),
        resources=resources_of(spec),
    )
    prefix = f"open-cluster-management:{manager['metadata']['name']}"
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(HUB_NAMESPACE))),
        account(subject.name, HUB_NAMESPACE),
        *cluster_rights(f"{prefix}:controller", CONTROLLER_RULES, subject),
        account(cleaner.name, HUB_NAMESPACE),
        *cluster_rights(f"{prefix}:{CLEANER}", CLEANER_RULES, cleaner),
        deployment(workload),
        cleaner_job(chosen),
    ]


def cleaner_job(image: str) -> Manifest:
    """Return the CronJob that removes clusters which left and were not deleted."""
    container = {"name": CLEANER, "image": image, "args": ["clean-clusters"]}
    pod = {
        "serviceAccountName": CLEANER_ACCOUNT,
        "restartPolicy": "Never",
        "containers": [container],
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    spec = {
        "schedule": "*/10 * * * *",
        "concurrencyPolicy": "Forbid",
        "jobTemplate": {"spec": {"backoffLimit": 1, "template": {"spec": pod}}},
    }
    key = ObjectKey(HUB_NAMESPACE, CLEANER)
    return CRON_JOBS, CRON_JOBS.manifest(key, metadata={"labels": labels_for(CLEANER)}, spec=spec)
