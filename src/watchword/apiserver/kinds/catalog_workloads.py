"""Workloads as data: pods, nodes, services, deployments and jobs."""

from __future__ import annotations

from watchword.api.meta import Resource
from watchword.api.resources import CRON_JOBS, DEPLOYMENTS, JOBS, NODES, PODS, SERVICES
from watchword.apiserver.kinds import jobs, pods, services, workloads
from watchword.apiserver.kinds.build import Rules, builtin, fields, status_apart
from watchword.apiserver.kinds.columns import network
from watchword.apiserver.kinds.columns import pods as pod_columns
from watchword.apiserver.kinds.columns import workloads as columns
from watchword.apiserver.kinds.names import dns1035_label
from watchword.apiserver.kinds.pod_defaults import default_pod
from watchword.apiserver.model import ResourceKind

ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")

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
_POD_FIELDS["spec.hostNetwork"] = pods.host_network
_POD_FIELDS["status.podIPs"] = lambda pod: ",".join(
    each.get("ip") or "" for each in (pod.get("status") or {}).get("podIPs") or ()
)

WORKLOADS: tuple[ResourceKind, ...] = (
    builtin(
        PODS,
        Rules(
            default=(default_pod,),
            prepare=(pods.prepare_pod,),
            validate=(pods.validate_pod,),
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
        Rules(
            default=(pods.default_node,),
            prepare=(status_apart(NODES, on_create=False),),
            fields={"spec.unschedulable": pods.unschedulable},
        ),
        columns=network.NODE,
        short_names=("no",),
        subresources=("status",),
        unconditional_update=True,
    ),
    builtin(
        SERVICES,
        Rules(
            name=dns1035_label,
            default=(services.default_service,),
            prepare=(status_apart(SERVICES), services.prepare_service),
            validate=(services.validate_service,),
            fields=fields("spec.clusterIP", "spec.type"),
        ),
        columns=network.SERVICE,
        short_names=("svc",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        create_on_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        ENDPOINTS,
        Rules(default=(services.default_endpoints,)),
        columns=network.ENDPOINTS,
        short_names=("ep",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        DEPLOYMENTS,
        Rules(
            default=(workloads.default_deployment,),
            prepare=(status_apart(DEPLOYMENTS), workloads.prepare_deployment),
            validate=(workloads.validate_deployment,),
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
        Rules(
            default=(workloads.default_replica_set,),
            prepare=(status_apart(REPLICA_SETS),),
            validate=(workloads.validate_replica_set,),
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
        Rules(
            default=(jobs.default_job,),
            prepare=(status_apart(JOBS), jobs.prepare_job),
            validate=(jobs.validate_job,),
            fields={"status.successful": jobs.successful},
        ),
        columns=columns.JOB,
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
    builtin(
        CRON_JOBS,
        Rules(
            default=(jobs.default_cron_job,),
            prepare=(status_apart(CRON_JOBS),),
            validate=(jobs.validate_cron_job,),
        ),
        columns=columns.CRON_JOB,
        short_names=("cj",),
        categories=("all",),
        subresources=("status",),
        unconditional_update=True,
        has_generation=True,
    ),
)
