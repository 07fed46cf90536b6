"""The built-in kinds as data: what is served, with which rules and columns."""

from msgspec.structs import replace

from watchword.api import resources
from watchword.api.meta import Resource
from watchword.apiserver.authz.validation import default_binding, prepare_role, validate_binding, validate_role
from watchword.apiserver.kinds import columns, core, workload_columns
from watchword.apiserver.kinds.build import REVIEWS, LazyFunction, builtin, selectable, separate_status
from watchword.apiserver.kinds.columns import DATED, at
from watchword.apiserver.kinds.metadata import any_name, dns1035_label, dns_label, path_segment
from watchword.apiserver.model import Column, Hook, ResourceKind, Validator

_CRD_HOOKS = "watchword.apiserver.crd.strategy"
_POLICY_HOOKS = "watchword.apiserver.admission.policy_validation"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _rbac(resource: Resource, prepare: Hook, validate: Validator, shown: tuple[Column, ...]) -> ResourceKind:
    return builtin(
        resource,
        name=path_segment,
        prepare=(prepare,),
        validate=(validate,),
        columns=shown,
        verbs=_VERBS,
        unconditional_update=True,
        create_on_update=True,
    )


ACCESS: tuple[ResourceKind, ...] = (
    _rbac(resources.ROLES, prepare_role, validate_role, DATED),
    _rbac(resources.CLUSTER_ROLES, prepare_role, validate_role, DATED),
    _rbac(resources.ROLE_BINDINGS, default_binding, validate_binding, columns.BINDING),
    _rbac(resources.CLUSTER_ROLE_BINDINGS, default_binding, validate_binding, columns.BINDING),
    builtin(resources.LEASES, validate=(core.validate_lease,), columns=columns.LEASE, create_on_update=True),
    builtin(
        resources.CERTIFICATE_SIGNING_REQUESTS,
        name=any_name,
        fields=selectable("spec.signerName"),
        prepare=(LazyFunction("watchword.apiserver.csr.strategy", "prepare_signing_request"),),
        validate=(LazyFunction("watchword.apiserver.csr.strategy", "validate_signing_request"),),
        columns=columns.CERTIFICATE_SIGNING_REQUEST,
        short_names=("csr",),
        subresources=("approval", "status"),
        unconditional_update=True,
        has_owners=False,
    ),
    builtin(
        resources.CUSTOM_RESOURCE_DEFINITIONS,
        default=(LazyFunction(_CRD_HOOKS, "default_definition"),),
        prepare=(LazyFunction(_CRD_HOOKS, "prepare_definition"),),
        validate=(LazyFunction(_CRD_HOOKS, "validate_definition"),),
        columns=DATED,
        begin_deletion=LazyFunction(_CRD_HOOKS, "mark_terminating"),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        resources.VALIDATING_ADMISSION_POLICIES,
        default=(LazyFunction(_POLICY_HOOKS, "default_policy"),),
        prepare=(separate_status(resources.VALIDATING_ADMISSION_POLICIES),),
        validate=(LazyFunction(_POLICY_HOOKS, "validate_policy"),),
        columns=columns.POLICY,
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        resources.VALIDATING_ADMISSION_POLICY_BINDINGS,
        default=(LazyFunction(_POLICY_HOOKS, "default_policy_binding"),),
        validate=(LazyFunction(_POLICY_HOOKS, "validate_policy_binding"),),
        columns=columns.POLICY_BINDING,
        categories=("api-extensions",),
        has_generation=True,
    ),
    *REVIEWS.values(),
)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **selectable(*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "type"),
    "source": core.source,
}
_MODERN_EVENT_FIELDS = selectable(
    *(f"regarding.{name}" for name in _REFERENCE), "reason", "reportingController", "type"
)

CORE: tuple[ResourceKind, ...] = (
    builtin(
        resources.NAMESPACES,
        name=dns_label,
        default=(core.default_namespace,),
        prepare=(core.prepare_namespace,),
        validate=(core.validate_namespace,),
        fields=selectable("status.phase"),
        columns=columns.NAMESPACE,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=("finalize", "status"),
        unconditional_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        resources.SECRETS,
        default=(core.default_secret,),
        validate=(core.validate_secret,),
        fields=selectable("type"),
        columns=columns.SECRET,
        unconditional_update=True,
    ),
    builtin(
        resources.CONFIG_MAPS,
        validate=(core.validate_config_map,),
        columns=columns.CONFIG_MAP,
        short_names=("cm",),
        unconditional_update=True,
    ),
    builtin(
        resources.SERVICE_ACCOUNTS,
        prepare=(core.prepare_service_account,),
        short_names=("sa",),
        subresources=("token",),
        unconditional_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        resources.CORE_EVENTS,
        validate=(core.validate_event,),
        fields=_EVENT_FIELDS,
        columns=columns.EVENT,
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        resources.EVENTS,
        validate=(core.validate_event,),
        fields=_MODERN_EVENT_FIELDS,
        columns=tuple(replace(column, cell=core.on_core(column.cell)) for column in columns.EVENT),
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
        stored_as=resources.CORE_EVENTS,
        to_stored=core.to_core,
        from_stored=core.from_core,
    ),
)


ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")


# The modules of the rules are loaded on first use: a hub may never have a pod.
_PODS = "watchword.apiserver.kinds.pods"
_SERVICES = "watchword.apiserver.kinds.services"
_WORKLOADS = "watchword.apiserver.kinds.workloads"
_SCALE = ("spec.replicas", "status.replicas", "spec.selector")

_POD_FIELDS = selectable(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_POD_FIELDS["spec.hostNetwork"] = lambda pod: str(bool(at(pod, "spec.hostNetwork"))).lower()
_POD_FIELDS["status.podIPs"] = lambda pod: ",".join(
    each.get("ip") or "" for each in (pod.get("status") or {}).get("podIPs") or ()
)

WORKLOADS: tuple[ResourceKind, ...] = (
    builtin(
        resources.PODS,
        default=(LazyFunction(_PODS, "default_pod"),),
        prepare=(LazyFunction(_PODS, "prepare_pod"),),
        validate=(LazyFunction(_PODS, "validate_pod"),),
        fields=_POD_FIELDS,
        columns=workload_columns.POD,
        short_names=("po",),
        categories=("all",),
        subresources=("ephemeralcontainers", "status"),
        unconditional_update=True,
        returns_deleted_object=True,
        has_generation=True,
    ),
    builtin(
        resources.NODES,
        default=(LazyFunction(_PODS, "default_node"),),
        prepare=(separate_status(resources.NODES, on_create=False),),
        fields={"spec.unschedulable": lambda node: str(bool(at(node, "spec.unschedulable"))).lower()},
        columns=workload_columns.NODE,
        short_names=("no",),
        subresources=("status",),
        unconditional_update=True,
    ),
    builtin(
        resources.SERVICES,
        name=dns1035_label,
        default=(LazyFunction(_SERVICES, "default_service"),),
        prepare=(separate_status(resources.SERVICES), LazyFunction(_SERVICES, "prepare_service")),
        validate=(LazyFunction(_SERVICES, "validate_service"),),
        fields=selectable("spec.clusterIP", "spec.type"),
        columns=workload_columns.SERVICE,
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        create_on_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        ENDPOINTS,
        default=(LazyFunction(_SERVICES, "default_endpoints"),),
        columns=workload_columns.ENDPOINTS,
        short_names=("ep",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        resources.DEPLOYMENTS,
        default=(LazyFunction(_WORKLOADS, "default_deployment"),),
        prepare=(separate_status(resources.DEPLOYMENTS), LazyFunction(_WORKLOADS, "prepare_deployment")),
        validate=(LazyFunction(_WORKLOADS, "validate_deployment"),),
        columns=workload_columns.DEPLOYMENT,
        short_names=("deploy",),
        categories=("all",),
        subresources=("scale", "status"),
        scale_paths=_SCALE,
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        REPLICA_SETS,
        default=(LazyFunction(_WORKLOADS, "default_replica_set"),),
        prepare=(separate_status(REPLICA_SETS),),
        validate=(LazyFunction(_WORKLOADS, "validate_replica_set"),),
        fields=selectable("status.replicas"),
        columns=workload_columns.REPLICA_SET,
        short_names=("rs",),
        categories=("all",),
        subresources=("scale", "status"),
        scale_paths=_SCALE,
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        resources.JOBS,
        default=(LazyFunction(_WORKLOADS, "default_job"),),
        prepare=(separate_status(resources.JOBS), LazyFunction(_WORKLOADS, "prepare_job")),
        validate=(LazyFunction(_WORKLOADS, "validate_job"),),
        fields={"status.successful": lambda job: str(at(job, "status.succeeded") or 0)},
        columns=workload_columns.JOB,
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        resources.CRON_JOBS,
        default=(LazyFunction(_WORKLOADS, "default_cron_job"),),
        prepare=(separate_status(resources.CRON_JOBS),),
        validate=(LazyFunction(_WORKLOADS, "validate_cron_job"),),
        columns=workload_columns.CRON_JOB,
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
)

BUILTINS: tuple[ResourceKind, ...] = (*CORE, *WORKLOADS, *ACCESS)
"""Every kind served without a CustomResourceDefinition."""
