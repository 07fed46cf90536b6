"""Workloads as data: pods, nodes, services, deployments and jobs."""

from __future__ import annotations

from watchword.api.meta import Resource
from watchword.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, NODES, PODS, SERVICES
from watchword.apiserver.kinds.build import KindStrategy, LazyFunction, builtin, fields, separate_status
from watchword.apiserver.kinds.columns import pods as pod_columns
from watchword.apiserver.kinds.columns import workloads as columns
from watchword.apiserver.kinds.names import dns1035_label
from watchword.apiserver.model import ResourceKind

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")


# The modules of the rules are loaded on first use: a hub may never have a pod.
_JOBS = "watchword.apiserver.kinds.jobs"
_POD_DEFAULTS = "watchword.apiserver.kinds.pods"
_PODS = "watchword.apiserver.kinds.pods"
_SERVICES = "watchword.apiserver.kinds.services"
_WORKLOADS = "watchword.apiserver.kinds.workloads"
_SCALE = ("spec.replicas", "status.replicas", "spec.selector")

_POD_FIELDS = fields(
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.phase",
    "status.podIP",
    "status.nominatedNodeName",
)
_POD_FIELDS["spec.hostNetwork"] = LazyFunction(_PODS, "host_network")
_POD_FIELDS["status.podIPs"] = lambda pod: ",".join(
    each.get("ip") or "" for each in (pod.get("status") or {}).get("podIPs") or ()
)

WORKLOADS: tuple[ResourceKind, ...] = (
    builtin(
        PODS,
        KindStrategy(
            default=(LazyFunction(_POD_DEFAULTS, "default_pod"),),
            prepare=(LazyFunction(_PODS, "prepare_pod"),),
            validate=(LazyFunction(_PODS, "validate_pod"),),
            fields=_POD_FIELDS,
        ),
        columns=pod_columns.POD,
        short_names=("po",),
        categories=("all",),
        subresources=("ephemeralcontainers", "status"),
        unconditional_update=True,
        returns_deleted_object=True,
        has_generation=True,
    ),
    builtin(
        NODES,
        KindStrategy(
            default=(LazyFunction(_PODS, "default_node"),),
            prepare=(separate_status(NODES, on_create=False),),
            fields={"spec.unschedulable": LazyFunction(_PODS, "unschedulable")},
        ),
        columns=columns.NODE,
        short_names=("no",),
        subresources=("status",),
        unconditional_update=True,
    ),
    builtin(
        SERVICES,
        KindStrategy(
            name=dns1035_label,
            default=(LazyFunction(_SERVICES, "default_service"),),
            prepare=(separate_status(SERVICES), LazyFunction(_SERVICES, "prepare_service")),
            validate=(LazyFunction(_SERVICES, "validate_service"),),
            fields=fields("spec.clusterIP", "spec.type"),
        ),
        columns=columns.SERVICE,
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        create_on_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        ENDPOINTS,
        KindStrategy(default=(LazyFunction(_SERVICES, "default_endpoints"),)),
        columns=columns.ENDPOINTS,
        short_names=("ep",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        DEPLOYMENTS,
        KindStrategy(
            default=(LazyFunction(_WORKLOADS, "default_deployment"),),
            prepare=(separate_status(DEPLOYMENTS), LazyFunction(_WORKLOADS, "prepare_deployment")),
            validate=(LazyFunction(_WORKLOADS, "validate_deployment"),),
        ),
        columns=columns.DEPLOYMENT,
        short_names=("deploy",),
        categories=("all",),
        subresources=("scale", "status"),
        scale_paths=_SCALE,
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        REPLICA_SETS,
        KindStrategy(
            default=(LazyFunction(_WORKLOADS, "default_replica_set"),),
            prepare=(separate_status(REPLICA_SETS),),
            validate=(LazyFunction(_WORKLOADS, "validate_replica_set"),),
            fields=fields("status.replicas"),
        ),
        columns=columns.REPLICA_SET,
        short_names=("rs",),
        categories=("all",),
        subresources=("scale", "status"),
        scale_paths=_SCALE,
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        JOBS,
        KindStrategy(
            default=(LazyFunction(_JOBS, "default_job"),),
            prepare=(separate_status(JOBS), LazyFunction(_JOBS, "prepare_job")),
            validate=(LazyFunction(_JOBS, "validate_job"),),
            fields={"status.successful": LazyFunction(_JOBS, "successful")},
        ),
        columns=columns.JOB,
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        CRON_JOBS,
        KindStrategy(
            default=(LazyFunction(_JOBS, "default_cron_job"),),
            prepare=(separate_status(CRON_JOBS),),
            validate=(LazyFunction(_JOBS, "validate_cron_job"),),
        ),
        columns=columns.CRON_JOB,
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
)
