"""The built-in kinds as data: what is served, with which rules and columns."""

from typing import Any

from msgspec.structs import replace

from watchword.api import resources
from watchword.api.meta import Resource
from watchword.apiserver.access.role_validation import default_binding, prepare_role, validate_binding, validate_role
from watchword.apiserver.kinds import columns, core
from watchword.apiserver.kinds.build import REVIEWS, LazyFunction, builtin, selectable, separate_status
from watchword.apiserver.kinds.columns import DATED, at
from watchword.apiserver.kinds.metadata import any_name, dns1035_label, dns_label, path_segment
from watchword.apiserver.serving.model import Column, Hook, ResourceKind, Validator

_CRD_HOOKS = "watchword.apiserver.crd.validation"
_POLICY_HOOKS = "watchword.apiserver.admission.policy_validation"


def _rbac(resource: Resource, prepare: Hook, validate: Validator, shown: tuple[Column, ...]) -> ResourceKind:
    return builtin(
        resource,
        name=path_segment,
        prepare=(prepare,),
        validate=(validate,),
        columns=shown,
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
        prepare=(LazyFunction("watchword.apiserver.admission.signing_requests", "prepare_signing_request"),),
        validate=(LazyFunction("watchword.apiserver.admission.signing_requests", "validate_signing_request"),),
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
        prepare=(separate_status(resources.VALIDATING_ADMISSION_POLICIES),),
        validate=(LazyFunction(_POLICY_HOOKS, "validate_policy"),),
        columns=columns.POLICY,
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        resources.VALIDATING_ADMISSION_POLICY_BINDINGS,
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


# The module of the rules is loaded on first use: a hub may never have a pod.
_WORKLOADS = "watchword.apiserver.kinds.workloads"
_REQUIRED = LazyFunction(_WORKLOADS, "validate_required")
_DEFAULT = (LazyFunction(_WORKLOADS, "default_workload"),)


def _workload(resource: Resource, *short_names: str, **served: Any) -> ResourceKind:
    """Return a kind with a status of its own, whose rules are those of its table unless `served` has others."""
    return builtin(
        resource,
        **{
            "prepare": (separate_status(resource),),
            "validate": (_REQUIRED,),
            "categories": ("all",),
            "subresources": ("status",),
            "has_generation": True,
            **served,
        },
        short_names=short_names,
        unconditional_update=True,
    )


WORKLOADS: tuple[ResourceKind, ...] = (
    _workload(
        resources.PODS,
        "po",
        default=_DEFAULT,
        validate=(LazyFunction(_WORKLOADS, "validate_pod"),),
        fields=selectable("spec.nodeName", "spec.restartPolicy", "spec.serviceAccountName", "status.phase"),
        columns=columns.POD,
        returns_deleted_object=True,
    ),
    _workload(
        resources.NODES,
        "no",
        prepare=(separate_status(resources.NODES, on_create=False),),
        validate=(),
        categories=(),
        fields={"spec.unschedulable": lambda node: str(bool(at(node, "spec.unschedulable"))).lower()},
        columns=columns.NODE,
        has_generation=False,
    ),
    _workload(
        resources.SERVICES,
        "svc",
        prepare=(separate_status(resources.SERVICES), core.prepare_service),
        name=dns1035_label,
        fields=selectable("spec.clusterIP", "spec.type"),
        columns=columns.SERVICE,
        create_on_update=True,
        returns_deleted_object=True,
        has_generation=False,
    ),
    builtin(ENDPOINTS, short_names=("ep",), unconditional_update=True, create_on_update=True),
    _workload(
        resources.DEPLOYMENTS, "deploy", default=_DEFAULT, columns=columns.DEPLOYMENT, subresources=("scale", "status")
    ),
    _workload(REPLICA_SETS, "rs", default=_DEFAULT, columns=columns.REPLICA_SET, subresources=("scale", "status")),
    _workload(
        resources.JOBS,
        default=(LazyFunction(_WORKLOADS, "default_job"),),
        prepare=(separate_status(resources.JOBS), LazyFunction(_WORKLOADS, "prepare_job")),
        columns=columns.JOB,
    ),
    _workload(
        resources.CRON_JOBS,
        "cj",
        default=_DEFAULT,
        validate=(LazyFunction(_WORKLOADS, "validate_cron_job"),),
        columns=columns.CRON_JOB,
    ),
)

BUILTINS: tuple[ResourceKind, ...] = (*CORE, *WORKLOADS, *ACCESS)
"""Every kind served without a CustomResourceDefinition."""
