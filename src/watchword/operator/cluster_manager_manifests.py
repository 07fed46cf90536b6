"""The hub's deployment as a ClusterManager describes it."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.meta import Manifest, Object, ObjectKey, annotations_of, mapping_at, rows_at
from watchword.api.names import HUB_NAMESPACE, HUB_SERVICE_ACCOUNT, IMAGE, Annotation
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.resources import CRON_JOBS, NAMESPACES, SERVICES
from watchword.api.validation import DurationError, parse_duration
from watchword.credentials.driver import DRIVER_LIST, Settings, Side, settings_from_spec, settings_to_flags
from watchword.operator import rendering
from watchword.operator.feature_gates import HUB_FEATURES, format_gates, is_enabled
from watchword.operator.klusterlet_manifests import pod_fields, resources_of
from watchword.operator.rbac import ACCOUNTS_ROLE, CLEANER_ROLE, HUB_ROLE
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import AnnotatesHubAccount, ClusterDriver, HasServer, HubServer

CLUSTER_MANAGER = "cluster-manager"
EXPOSED_PORT = 443


def server_name(manager: Object, server: HubServer) -> str:
    return f"{manager['metadata']['name']}-{server.name}"


def server_bindings(manager: Object, server: HubServer, controller: ObjectKey) -> list[Manifest]:
    prefix = f"open-cluster-management:operated:{manager['metadata']['name']}:{server.name}"
    account = ObjectKey(HUB_NAMESPACE, server.service_account)
    rows: list[Manifest] = [
        rendering.service_account(account.name, account.namespace),
        rendering.cluster_binding(prefix, server.role, account),
    ]
    if server.signer_rules:
        rows.append(rendering.cluster_binding(f"{prefix}-signer", server.signer_role, controller))
    if server.controller_rules:
        key = ObjectKey(HUB_NAMESPACE, f"{server.name}-controller")
        rows += rendering.role_with_binding(key, [], controller, existing_role=server.controller_role)
    return rows


def server_workload(manager: Object, server: HubServer, image: str) -> list[Manifest]:
    spec: Mapping[str, Any] = manager.get("spec") or {}
    own: Mapping[str, Any] = spec.get("serverConfiguration") or {}
    name = server_name(manager, server)
    workload = rendering.Workload(
        key=ObjectKey(HUB_NAMESPACE, name),
        service_account=server.service_account,
        image=str(own.get("imagePullSpec") or spec.get("imagePullSpec") or image),
        arguments=server.arguments,
        replicas=replicas_of(manager),
        secrets=server.secrets,
        config_maps=server.config_maps,
        pod=pod_fields(manager),
        resources=resources_of(spec),
    )
    return [rendering.deployment(workload), service(name, server.port, is_balanced=_is_balanced(own, server.exposure))]


def service(name: str, port: int, *, is_balanced: bool) -> Manifest:
    """Return the Service of a server; with a load balancer where the exposure asks for one."""
    ports = [{"name": "server", "port": EXPOSED_PORT if is_balanced else port, "targetPort": port, "protocol": "TCP"}]
    spec: Object = {
        "type": "LoadBalancer" if is_balanced else "ClusterIP",
        "selector": {"app": name},
        "ports": ports,
    }
    key = ObjectKey(HUB_NAMESPACE, name)
    return SERVICES, SERVICES.manifest(key, metadata={"labels": rendering.labels_for(name)}, spec=spec)


def _is_balanced(configuration: Mapping[str, Any], protocol: str) -> bool:
    ways = [row.get(protocol) or {} for row in configuration.get("endpointsExposure") or []]
    return any(way.get("type") == "loadBalancer" for way in ways)


CONTROLLER = ObjectKey(HUB_NAMESPACE, HUB_SERVICE_ACCOUNT)
CLEANER = ObjectKey(HUB_NAMESPACE, "cluster-cleaner-sa")
CLEANER_JOB = "cluster-cleaner"


def hub_flags(manager: Object, catalog: Catalog = CATALOG) -> list[str]:
    flags = [f"--namespace={HUB_NAMESPACE}"]
    names = [str(entry.get("authType") or catalog.default) for entry in rows_at(_registration(manager), DRIVER_LIST)]
    if names:
        flags.append(f"--enabled-registration-drivers={','.join(names)}")
    flags += settings_to_flags(catalog.options(Side.HUB), hub_settings(manager, catalog))
    retention = left_cluster_retention(manager)
    if retention:
        flags.append(f"--left-cluster-retention={retention}")
    return [*flags, *format_gates(manager, HUB_FEATURES)]


def left_cluster_retention(manager: Object) -> str:
    """Return how long clusters that left are kept, as the administrator says; empty for the default or no duration."""
    text = annotations_of(manager).get(Annotation.LEFT_CLUSTER_RETENTION, "")
    try:
        return text if text and parse_duration(text) >= timedelta(0) else ""
    except DurationError:
        return ""


def hub_settings(manager: Object, catalog: Catalog) -> Settings:
    registration = _registration(manager)
    settings: dict[str, str] = {}
    for driver in catalog.drivers:
        entry = _entry(registration, (driver.name, *driver.aliases))
        options = catalog.options(Side.HUB, driver.name)
        settings |= settings_from_spec(options, registration, entry)
        exposed = ((option.flag, exposed_hosts(manager, option.exposure)) for option in options if option.exposure)
        settings |= {flag: ",".join(hosts) for flag, hosts in exposed if hosts}
    return settings


def exposed_hosts(manager: Object, protocol: str) -> list[str]:
    """Return by which hosts agents reach the server of a protocol, as `serverConfiguration` says."""
    rows = rows_at(manager, "spec", "serverConfiguration", "endpointsExposure")
    ways = [mapping_at(row, protocol) for row in rows if row.get("protocol") == protocol]
    hosts = [str(mapping_at(way, str(way.get("type") or "hostname")).get("host") or "") for way in ways]
    return [host for host in hosts if host]


def enabled_servers(manager: Object, catalog: Catalog = CATALOG) -> list[HubServer]:
    return [driver.server for driver in enabled_drivers(manager, catalog) if isinstance(driver, HasServer)]


def account_annotations(manager: Object, catalog: Catalog = CATALOG) -> dict[str, str]:
    """Return what the enabled drivers need on the ServiceAccount of the hub's controllers."""
    settings, annotations = hub_settings(manager, catalog), dict[str, str]()
    for driver in enabled_drivers(manager, catalog):
        annotations |= driver.hub_account_annotations(settings) if isinstance(driver, AnnotatesHubAccount) else {}
    return annotations


def enabled_drivers(manager: Object, catalog: Catalog) -> list[ClusterDriver]:
    """Return the drivers by which clusters register with this hub; the default one where the spec lists none."""
    listed = rows_at(_registration(manager), DRIVER_LIST)
    return catalog.known(str(entry.get("authType") or catalog.default) for entry in listed or [{}])


def _registration(manager: Object) -> Mapping[str, Any]:
    return mapping_at(manager, "spec", "registrationConfiguration")


def _entry(registration: Mapping[str, Any], names: tuple[str, ...]) -> Mapping[str, Any]:
    return next(
        (entry for entry in rows_at(registration, DRIVER_LIST) if str(entry.get("authType") or "") in names), {}
    )


def hub_manifests(manager: Object, *, image: str = IMAGE) -> list[Manifest]:
    """Return what the operator applies for a hub: bound to roles that exist, so that it need not hold their rights."""
    prefix = f"open-cluster-management:operated:{manager['metadata']['name']}"
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(HUB_NAMESPACE))),
        rendering.service_account(CONTROLLER.name, HUB_NAMESPACE, account_annotations(manager)),
        rendering.cluster_binding(f"{prefix}:controller", HUB_ROLE, CONTROLLER),
        rendering.service_account(CLEANER.name, HUB_NAMESPACE),
        rendering.cluster_binding(f"{prefix}:cluster-cleaner", CLEANER_ROLE, CLEANER),
        *(row for server in enabled_servers(manager) for row in server_bindings(manager, server, CONTROLLER)),
        *([accounts_binding(manager)] if is_enabled(manager, ACCOUNTS_GATE) else []),
        *_workloads(manager, image),
    ]


def accounts_binding(manager: Object) -> Manifest:
    """Return what lets the hub serve managed service accounts: the right to their Secrets, and to them."""
    name = f"open-cluster-management:operated:{manager['metadata']['name']}:accounts"
    return rendering.cluster_binding(name, ACCOUNTS_ROLE, CONTROLLER)


def _workloads(manager: Object, image: str) -> list[Manifest]:
    spec: Mapping[str, Any] = manager.get("spec") or {}
    chosen = str(spec.get("imagePullSpec") or image)
    workload = rendering.Workload(
        key=ObjectKey(HUB_NAMESPACE, f"{manager['metadata']['name']}-controller"),
        service_account=CONTROLLER.name,
        image=chosen,
        arguments=["hub", *hub_flags(manager), f"--agent-image={chosen}"],
        replicas=replicas_of(manager),
        pod=pod_fields(manager),
        resources=resources_of(spec),
    )
    servers = [row for server in enabled_servers(manager) for row in server_workload(manager, server, image)]
    return [
        rendering.deployment(workload),
        cleaner_job(chosen, left_cluster_retention(manager), pod_fields(manager)),
        *servers,
    ]


def replicas_of(manager: Object) -> int:
    """Return how many replicas of the controllers and of each server run: one, unless the annotation says more."""
    text = annotations_of(manager).get(Annotation.REPLICAS, "")
    return max(int(text), 1) if text.isdecimal() and text.isascii() and len(text) <= 4 else 1


def cleaner_job(image: str, retention: str = "", pod_fields: Mapping[str, Any] | None = None) -> Manifest:
    container = {
        "name": CLEANER_JOB,
        "image": image,
        "args": ["clean-clusters", *([f"--retention={retention}"] if retention else [])],
        "securityContext": dict(CONTAINER_SECURITY),
    }
    pod = {
        "serviceAccountName": CLEANER.name,
        "automountServiceAccountToken": True,
        "restartPolicy": "Never",
        "containers": [container],
        "securityContext": dict(POD_SECURITY),
        **(pod_fields or {}),
    }
    spec = {
        "schedule": "*/10 * * * *",
        "concurrencyPolicy": "Forbid",
        # A Job that cannot start, of an image that cannot be pulled, makes room for the next.
        "jobTemplate": {
            "spec": {"backoffLimit": 1, "activeDeadlineSeconds": rendering.JOB_DEADLINE, "template": {"spec": pod}}
        },
    }
    key = ObjectKey(HUB_NAMESPACE, CLEANER_JOB)
    return CRON_JOBS, CRON_JOBS.manifest(key, metadata={"labels": rendering.labels_for(CLEANER_JOB)}, spec=spec)
