"""The agent's deployment as a Klusterlet describes it."""

from collections.abc import Mapping
from typing import Any

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, list_at, mapping_at, rows_at
from watchword.api.names import (
    ADDON_NAMESPACE,
    AGENT_NAMESPACE,
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    IMAGE,
    Annotation,
)
from watchword.api.resources import NAMESPACES
from watchword.credentials.driver import Side, settings_from_spec, settings_to_flags
from watchword.operator import rendering
from watchword.operator.feature_gates import AGENT_FEATURES, format_gates
from watchword.operator.rbac import AGENT_OWN_ROLE, AGENT_ROLE, EXECUTION_ROLE
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import AnnotatesAgentAccount, ClusterDriver

BOOTSTRAP_MOUNT = "/spoke/bootstrap"
DEFAULT_ACCOUNT_SUFFIX = "sa"
BOOTSTRAP_ANNOTATION = "operator.watchword.dev/bootstrap"


def namespace_of(klusterlet: Object) -> str:
    return str(mapping_at(klusterlet, "spec").get("namespace") or AGENT_NAMESPACE)


def agent_flags(klusterlet: Object, catalog: Catalog = CATALOG) -> list[str]:
    """Return the agent's command line, rendered from the spec; what is unset is left to the agent's defaults."""
    spec = mapping_at(klusterlet, "spec")
    registration, work = mapping_at(spec, "registrationConfiguration"), mapping_at(spec, "workConfiguration")
    flags = [
        f"--spoke-cluster-name={spec.get('clusterName') or klusterlet['metadata']['name']}",
        f"--namespace={namespace_of(klusterlet)}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_MOUNT}/kubeconfig",
        f"--hub-kubeconfig-secret={HUB_KUBECONFIG_SECRET}",
        *_driver_flags(registration, catalog),
        *_registration_flags(registration),
        *_work_flags(work),
    ]
    urls = [str(row.get("url")) for row in rows_at(spec, "externalServerURLs") if row.get("url")]
    if urls:
        flags.append(f"--spoke-external-server-urls={','.join(urls)}")
    names = annotations_of(klusterlet).get(Annotation.WORK_NAMESPACES, "").replace(" ", "")
    if names:
        flags.append(f"--work-namespaces={names}")
    return [*flags, *format_gates(klusterlet, AGENT_FEATURES)]


def _registration_flags(registration: Mapping[str, Any]) -> list[str]:
    flags = []
    for flag, field in (("--cluster-annotations", "clusterAnnotations"), ("--cluster-labels", "clusterLabels")):
        pairs = ",".join(f"{name}={value}" for name, value in sorted(mapping_at(registration, field).items()))
        if pairs:
            flags.append(f"{flag}={pairs}")
    claims = mapping_at(registration, "clusterClaimConfiguration")
    if claims.get("maxCustomClusterClaims") is not None:
        flags.append(f"--max-custom-cluster-claims={claims['maxCustomClusterClaims']}")
    suffixes = ",".join(map(str, list_at(claims, "reservedClusterClaimSuffixes")))
    if suffixes:
        flags.append(f"--reserved-cluster-claim-suffixes={suffixes}")
    return flags


def _driver_flags(registration: Mapping[str, Any], catalog: Catalog) -> list[str]:
    options = (*catalog.options(Side.CLUSTER), *ADDON_CATALOG.options)
    names = (
        ("--registration-auth", "registrationDriver"),
        ("--addon-kubeclient-registration-auth", "addOnKubeClientRegistrationDriver"),
    )
    chosen = [(flag, mapping_at(registration, field).get("authType")) for flag, field in names]
    flags = [f"{flag}={name}" for flag, name in chosen if name]
    return [*flags, *settings_to_flags(options, settings_from_spec(options, registration))]


def _work_flags(work: Mapping[str, Any]) -> list[str]:
    known = {
        "appliedManifestWorkEvictionGracePeriod": "--appliedmanifestwork-eviction-grace-period",
        "statusSyncInterval": "--status-sync-interval",
    }
    return [f"{flag}={work[field]}" for field, flag in known.items() if work.get(field)]


def agent_manifests(klusterlet: Object, *, image: str = IMAGE, bootstrap: str = "") -> list[Manifest]:
    """Return what the operator applies for an agent: bound to existing roles, so that it need not hold their rights.

    `bootstrap` stands for the content of the bootstrap Secret: an agent that waits for one, or whose hub moved,
    is started anew with what is there now.
    """
    namespace, subject = namespace_of(klusterlet), service_account_of(klusterlet)
    prefix = f"open-cluster-management:operated:{klusterlet['metadata']['name']}"
    places = (namespace, addon_namespace(namespace))
    return [
        *_namespaces_and_account(klusterlet),
        rendering.cluster_binding(f"{prefix}:agent", AGENT_ROLE, subject),
        rendering.cluster_binding(f"{prefix}:work", EXECUTION_ROLE, subject),
        *(
            binding
            for place in places
            for binding in rendering.role_with_binding(
                ObjectKey(place, f"{prefix}:agent"), (), subject, existing_role=AGENT_OWN_ROLE
            )
        ),
        agent_deployment(klusterlet, image=image, bootstrap=bootstrap),
    ]


def service_account_of(klusterlet: Object) -> ObjectKey:
    """Return the ServiceAccount that the agent runs as; a driver may expect another name than the usual one."""
    driver = _choose_driver(_registration_of(klusterlet))
    suffix = driver.account_suffix if isinstance(driver, AnnotatesAgentAccount) else DEFAULT_ACCOUNT_SUFFIX
    return ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-{suffix}")


def _namespaces_and_account(klusterlet: Object) -> list[Manifest]:
    namespace, subject = namespace_of(klusterlet), service_account_of(klusterlet)
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace))),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(addon_namespace(namespace)))),
        rendering.service_account(subject.name, namespace, _account_annotations(_registration_of(klusterlet))),
    ]


def agent_deployment(klusterlet: Object, *, image: str = IMAGE, bootstrap: str = "") -> Manifest:
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    return rendering.deployment(
        rendering.Workload(
            key=ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-agent"),
            service_account=service_account_of(klusterlet).name,
            image=str(spec.get("imagePullSpec") or image),
            arguments=["agent", *agent_flags(klusterlet)],
            secrets={BOOTSTRAP_KUBECONFIG_SECRET: BOOTSTRAP_MOUNT},
            pod=pod_fields(klusterlet),
            resources=resources_of(spec),
            # An agent that waits for acceptance is well: whether it reached its hub is a condition, not a probe.
            ready_path="/healthz",
            annotations={BOOTSTRAP_ANNOTATION: bootstrap} if bootstrap else {},
        )
    )


def addon_namespace(namespace: str) -> str:
    return ADDON_NAMESPACE if namespace == AGENT_NAMESPACE else f"{namespace}-addon"


def _account_annotations(registration: Mapping[str, Any]) -> dict[str, str]:
    settings = settings_from_spec(CATALOG.options(Side.CLUSTER), registration)
    driver = _choose_driver(registration)
    return dict(driver.account_annotations(settings)) if isinstance(driver, AnnotatesAgentAccount) else {}


def _registration_of(klusterlet: Object) -> Mapping[str, Any]:
    return (klusterlet.get("spec") or {}).get("registrationConfiguration") or {}


def _choose_driver(registration: Mapping[str, Any]) -> ClusterDriver:
    """Return the driver that the spec names; the default when it names none, or an unknown one."""
    named = str((registration.get("registrationDriver") or {}).get("authType"))
    return next(iter(CATALOG.known([named])), CATALOG.find(""))


def pod_fields(deployed: Object) -> dict[str, Any]:
    spec: Mapping[str, Any] = deployed.get("spec") or {}
    placement: Mapping[str, Any] = spec.get("nodePlacement") or {}
    fields: dict[str, Any] = {name: placement[name] for name in ("nodeSelector", "tolerations") if placement.get(name)}
    if spec.get("priorityClassName"):
        fields["priorityClassName"] = spec["priorityClassName"]
    alias: Mapping[str, Any] = spec.get("hubApiServerHostAlias") or {}
    if alias:
        fields["hostAliases"] = [{"ip": alias["ip"], "hostnames": [alias["hostname"]]}]
    return {**fields, **pull_secret_fields(deployed)}


def pull_secret_fields(deployed: Object) -> dict[str, Any]:
    names = annotations_of(deployed).get(Annotation.IMAGE_PULL_SECRETS, "").split(",")
    references = [{"name": name.strip()} for name in names if name.strip()]
    return {"imagePullSecrets": references} if references else {}


def resources_of(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the resources of the container: small by default, none under BestEffort."""
    requirement: Mapping[str, Any] = spec.get("resourceRequirement") or {}
    match requirement.get("type", "Default"):
        case "ResourceRequirement":
            return requirement.get("resourceRequirements") or {}
        case "BestEffort":
            return {}
        case _:
            return {"requests": {"cpu": "2m", "memory": "64Mi"}}
