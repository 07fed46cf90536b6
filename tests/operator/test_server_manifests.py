"""The servers that drivers bring to a hub, as the operator renders them."""

from __future__ import annotations

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.rbac import rules_of
from watchword.api.resources import (
    CLUSTER_MANAGERS,
    CLUSTER_ROLE_BINDINGS,
    DEPLOYMENTS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from watchword.operator.cluster_manager import (
    CONTROLLER,
    enabled_servers,
    hub_flags,
    server_bindings,
    server_workload,
)
from watchword.registration.catalog import Catalog
from watchword.registration.csr.driver import CsrDriver
from watchword.registration.grpc.driver import HOSTS, SERVER, GrpcDriver
from watchword.registration.grpc.hub import SERVICE

BOTH = Catalog((CsrDriver(), GrpcDriver()))


def a_manager(*drivers: str, exposure: Object | None = None) -> Object:
    spec: Object = {"registrationConfiguration": {"registrationDrivers": [{"authType": name} for name in drivers]}}
    if exposure is not None:
        row = {"protocol": "grpc", "usage": "agentToHub", "grpc": exposure}
        spec["serverConfiguration"] = {"imagePullSpec": "example.com/server:1", "endpointsExposure": [row]}
    return CLUSTER_MANAGERS.manifest(ObjectKey.cluster("cluster-manager"), spec=spec)


def test_hub_without_the_driver_has_no_server() -> None:
    assert enabled_servers(a_manager("csr"), BOTH) == []


def test_hub_with_the_driver_has_its_server() -> None:
    assert enabled_servers(a_manager("csr", "grpc"), BOTH) == [SERVER]


def test_deployment_mounts_certificates_and_names_no_secret_in_its_arguments() -> None:
    (resource, found), (_, service) = server_workload(a_manager("grpc"), SERVER, "watchword")

    container = found["spec"]["template"]["spec"]["containers"][0]
    mounts = {row["name"]: row["mountPath"] for row in container["volumeMounts"]}
    assert resource is DEPLOYMENTS
    assert found["metadata"]["name"] == service["metadata"]["name"] == SERVICE
    assert found["spec"]["template"]["spec"]["serviceAccountName"] == "grpc-server-sa"
    assert f"--tls-cert-file={mounts['grpc-server-serving-cert']}/tls.crt" in container["args"]
    assert f"--client-ca-file={mounts['ca-bundle-configmap']}/ca-bundle.crt" in container["args"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_exposure_decides_about_hosts_image_and_service() -> None:
    exposure = {"type": "loadBalancer", "loadBalancer": {"host": "grpc.example.com"}}
    manager = a_manager("grpc", exposure=exposure)

    (_, found), (resource, service) = server_workload(manager, SERVER, "watchword")

    assert found["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/server:1"
    assert resource is SERVICES
    assert service["spec"]["type"] == "LoadBalancer"
    assert service["spec"]["ports"][0]["port"] == 443
    assert f"{HOSTS.flag}=grpc.example.com" in hub_flags(manager, BOTH)


def test_rights_are_bound_to_the_server_and_to_the_controllers_alone() -> None:
    rows = server_bindings(a_manager("grpc"), SERVER, CONTROLLER)

    bound = {(obj["roleRef"]["name"], obj["subjects"][0]["name"]) for _, obj in rows if "roleRef" in obj}
    assert {resource for resource, _ in rows} == {SERVICE_ACCOUNTS, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS}
    assert bound == {
        (SERVER.role, "grpc-server-sa"),
        (SERVER.signer_role, CONTROLLER.name),
        (SERVER.controller_role, CONTROLLER.name),
    }
    assert all(obj["metadata"]["namespace"] == HUB_NAMESPACE for resource, obj in rows if resource is ROLE_BINDINGS)


def test_server_may_neither_accept_clusters_nor_approve_certificates() -> None:
    rules = rules_of(SERVER.roles[SERVER.role])
    allowed = {(resource, verb) for rule in rules for resource in rule["resources"] for verb in rule["verbs"]}

    assert not {resource for resource, _ in allowed} & {"managedclusters/accept", "secrets", "signers", "*"}
    assert ("certificatesigningrequests/approval", "update") not in allowed
    assert "*" not in {verb for _, verb in allowed}
    assert "impersonate" not in {verb for _, verb in allowed}
