"""Workloads as data: pods, nodes, services, deployments and jobs."""

from __future__ import annotations

from watchword.api.lazy_function import LazyFunction
from watchword.api.meta import Resource
from watchword.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, NODES, PODS, SERVICES
from watchword.apiserver.kinds.build import KindStrategy, builtin, fields, separate_status
from watchword.apiserver.kinds.columns import pods as pod_columns
from watchword.apiserver.kinds.columns import workloads as columns
from watchword.apiserver.kinds.names import dns1035_label
from watchword.apiserver.model import ResourceKind

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")


def _rule(name: str) -> LazyFunction:
    """Return a rule of a sibling module, loaded on first use: a hub may never have a pod."""
    module, _, function = name.partition(".")
    return LazyFunction(f"watchword.apiserver.kinds.{module}", function)


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
_POD_FIELDS["spec.hostNetwork"] = _rule("pods.host_network")
_POD_FIELDS["status.podIPs"] = lambda pod: ",".join(
    each.get("ip") or "" for each in (pod.get("status") or {}).get("podIPs") or ()
)

WORKLOADS: tuple[ResourceKind, ...] = (
    builtin(
        PODS,
        KindStrategy(
            default=(_rule("pod_defaults.default_pod"),),
            prepare=(_rule("pods.prepare_pod"),),
            validate=(_rule("pods.validate_pod"),),
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
            default=(_rule("pods.default_node"),),
            prepare=(separate_status(NODES, on_create=False),),
            fields={"spec.unschedulable": _rule("pods.unschedulable")},
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
            default=(_rule("services.default_service"),),
            prepare=(separate_status(SERVICES), _rule("services.prepare_service")),
            validate=(_rule("services.validate_service"),),
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
        KindStrategy(default=(_rule("services.default_endpoints"),)),
        columns=columns.ENDPOINTS,
        short_names=("ep",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        DEPLOYMENTS,
        KindStrategy(
            default=(_rule("workloads.default_deployment"),),
            prepare=(separate_status(DEPLOYMENTS), _rule("workloads.prepare_deployment")),
            validate=(_rule("workloads.validate_deployment"),),
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
            default=(_rule("workloads.default_replica_set"),),
            prepare=(separate_status(REPLICA_SETS),),
            validate=(_rule("workloads.validate_replica_set"),),
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
            default=(_rule("jobs.default_job"),),
            prepare=(separate_status(JOBS), _rule("jobs.prepare_job")),
            validate=(_rule("jobs.validate_job"),),
            fields={"status.successful": _rule("jobs.successful")},
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
            default=(_rule("jobs.default_cron_job"),),
            prepare=(separate_status(CRON_JOBS),),
            validate=(_rule("jobs.validate_cron_job"),),
        ),
        columns=columns.CRON_JOB,
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
)
