"""The servers that drivers bring to a hub: Deployment, Service, account and rights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.rbac import rules_of
from watchword.api.resources import CLUSTER_ROLES, SERVICES
from watchword.drivers.hub_server import HubServer
from watchword.operator.klusterlet_manifests import pod_fields, resources_of
from watchword.operator.rendering import (
    Workload,
    cluster_binding,
    deployment,
    labels_for,
    role_with_binding,
    service_account,
)

REPLICAS = 1
EXPOSED_PORT = 443


def server_name(manager: Object, server: HubServer) -> str:
    """Return the name of a server's Deployment and Service."""
    return f"{manager['metadata']['name']}-{server.name}"


def server_roles(server: HubServer) -> list[Manifest]:
    """Return the roles that a server and the hub's controllers are bound to; inert until they are."""
    return [
        (
            CLUSTER_ROLES,
            CLUSTER_ROLES.manifest(
                ObjectKey.cluster(name), metadata={"labels": labels_for(server.name)}, rules=rules_of(rules)
            ),
        )
        for name, rules in server.roles.items()
    ]


def server_bindings(manager: Object, server: HubServer, controller: ObjectKey) -> list[Manifest]:
    """Return the account of a server, and what binds it and the hub's controllers to their roles."""
    prefix = f"open-cluster-management:operated:{manager['metadata']['name']}:{server.name}"
    account = ObjectKey(HUB_NAMESPACE, server.service_account)
    rows: list[Manifest] = [
        service_account(account.name, account.namespace),
        cluster_binding(prefix, server.role, account),
    ]
    if server.signer_rules:
        rows.append(cluster_binding(f"{prefix}-signer", server.signer_role, controller))
    if server.controller_rules:
        key = ObjectKey(HUB_NAMESPACE, f"{server.name}-controller")
        rows += role_with_binding(key, [], controller, existing_role=server.controller_role)
    return rows


def server_workload(manager: Object, server: HubServer, image: str) -> list[Manifest]:
    """Return the Deployment of a server and the Service in front of it."""
    spec: Mapping[str, Any] = manager.get("spec") or {}
    own: Mapping[str, Any] = spec.get("serverConfiguration") or {}
    name = server_name(manager, server)
    workload = Workload(
        name=name,
        namespace=HUB_NAMESPACE,
        service_account=server.service_account,
        image=str(own.get("imagePullSpec") or spec.get("imagePullSpec") or image),
        arguments=server.arguments,
        replicas=REPLICAS,
        secrets=server.secrets,
        config_maps=server.config_maps,
        pod=pod_fields(manager),
        resources=resources_of(spec),
    )
    return [deployment(workload), service(name, server.port, is_balanced=_is_balanced(own, server.exposure))]


def service(name: str, port: int, *, is_balanced: bool) -> Manifest:
    """Return the Service of a server; with a load balancer where the exposure asks for one."""
    ports = [{"name": "server", "port": EXPOSED_PORT if is_balanced else port, "targetPort": port, "protocol": "TCP"}]
    spec: Object = {
        "type": "LoadBalancer" if is_balanced else "ClusterIP",
        "selector": {"app": name},
        "ports": ports,
    }
    key = ObjectKey(HUB_NAMESPACE, name)
    return SERVICES, SERVICES.manifest(key, metadata={"labels": labels_for(name)}, spec=spec)


def _is_balanced(configuration: Mapping[str, Any], protocol: str) -> bool:
    ways = [row.get(protocol) or {} for row in configuration.get("endpointsExposure") or []]
    return any(way.get("type") == "loadBalancer" for way in ways)
