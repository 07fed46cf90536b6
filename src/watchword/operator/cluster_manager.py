"""Keeps the hub's controllers deployed as their ClusterManager specifies, and reports their state."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any

from msgspec import Struct

from watchword.api import meta
from watchword.api.accounts import ACCOUNTS_GATE
from watchword.api.conditions import Condition
from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE, HUB_SERVICE_ACCOUNT, IMAGE, Annotation, Finalizer
from watchword.api.pod_security import CONTAINER_SECURITY, POD_SECURITY
from watchword.api.resources import CLUSTER_MANAGERS, CRON_JOBS, DEPLOYMENTS, NAMESPACES, SERVICES
from watchword.api.validation import DurationError, parse_duration
from watchword.credentials.driver import DRIVER_LIST, Settings, Side, settings_from_spec, settings_to_flags
from watchword.credentials.errors import UnknownDriver
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.operator import conditions, rendering
from watchword.operator.applier import OwnedObjectApplier
from watchword.operator.conditions import HUB_FEATURES, describe_failure, format_gates, is_enabled, report_status
from watchword.operator.klusterlet import pod_fields, resources_of, validate_settings
from watchword.operator.rbac import ACCOUNTS_ROLE, CLEANER_ROLE, HUB_ROLE
from watchword.operator.rendering import OPERATOR, image_of_operator
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import AnnotatesHubAccount, ClusterDriver, HasServer, HubServer
from watchword.runtime.ensure import add_finalizer, remove_finalizer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

CLUSTER_MANAGER = "cluster-manager"
EXPOSED_PORT = 443


def server_name(manager: meta.Object, server: HubServer) -> str:
    return f"{manager['metadata']['name']}-{server.name}"


def server_bindings(manager: meta.Object, server: HubServer, controller: ObjectKey) -> list[meta.Manifest]:
    prefix = f"open-cluster-management:operated:{manager['metadata']['name']}:{server.name}"
    account = ObjectKey(HUB_NAMESPACE, server.service_account)
    rows: list[meta.Manifest] = [
        rendering.service_account(account.name, account.namespace),
        rendering.cluster_binding(prefix, server.role, account),
    ]
    if server.signer_rules:
        rows.append(rendering.cluster_binding(f"{prefix}-signer", server.signer_role, controller))
    if server.controller_rules:
        key = ObjectKey(HUB_NAMESPACE, f"{server.name}-controller")
        rows.append(rendering.binding_in_namespace(key, server.controller_role, controller))
    return rows


def server_workload(manager: meta.Object, server: HubServer, image: str) -> list[meta.Manifest]:
    """Return the Deployment of a server and its Service: with a load balancer where the exposure asks for one."""
    spec: Mapping[str, Any] = manager.get("spec") or {}
    own: Mapping[str, Any] = spec.get("serverConfiguration") or {}
    workload = rendering.Workload(
        key=ObjectKey(HUB_NAMESPACE, server_name(manager, server)),
        service_account=server.service_account,
        image=str(own.get("imagePullSpec") or spec.get("imagePullSpec") or image),
        arguments=server.arguments,
        replicas=replicas_of(manager),
        secrets=server.secrets,
        config_maps=server.config_maps,
        pod=pod_fields(manager),
        resources=resources_of(spec),
    )
    ways = [meta.mapping_at(row, server.exposure) for row in meta.rows_at(own, "endpointsExposure")]
    kind, port = "ClusterIP", server.port
    if any(way.get("type") == "loadBalancer" for way in ways):
        kind, port = "LoadBalancer", EXPOSED_PORT
    ports = [{"name": "server", "port": port, "targetPort": server.port, "protocol": "TCP"}]
    service = {"type": kind, "selector": {"app": workload.key.name}, "ports": ports}
    return [rendering.deployment(workload), rendering.labelled(SERVICES, workload.key, spec=service)]


CONTROLLER = ObjectKey(HUB_NAMESPACE, HUB_SERVICE_ACCOUNT)
CLEANER = ObjectKey(HUB_NAMESPACE, "cluster-cleaner-sa")
CLEANER_JOB = "cluster-cleaner"


def hub_flags(manager: meta.Object, catalog: Catalog = CATALOG) -> list[str]:
    flags = [f"--namespace={HUB_NAMESPACE}"]
    names = [
        str(entry.get("authType") or catalog.default) for entry in meta.rows_at(_registration(manager), DRIVER_LIST)
    ]
    if names:
        flags.append(f"--enabled-registration-drivers={','.join(names)}")
    flags += settings_to_flags(catalog.options(Side.HUB), hub_settings(manager, catalog))
    retention = left_cluster_retention(manager)
    if retention:
        flags.append(f"--left-cluster-retention={retention}")
    return [*flags, *format_gates(manager, HUB_FEATURES)]


def left_cluster_retention(manager: meta.Object) -> str:
    """Return how long clusters that left are kept, as the administrator says; empty for the default or no duration."""
    text = meta.annotations_of(manager).get(Annotation.LEFT_CLUSTER_RETENTION, "")
    try:
        return text if text and parse_duration(text) >= timedelta(0) else ""
    except DurationError:
        return ""


def hub_settings(manager: meta.Object, catalog: Catalog) -> Settings:
    registration = _registration(manager)
    settings: dict[str, str] = {}
    for driver in catalog.drivers:
        names = (driver.name, *driver.aliases)
        listed = (row for row in meta.rows_at(registration, DRIVER_LIST) if str(row.get("authType") or "") in names)
        options = catalog.options(Side.HUB, driver.name)
        settings |= settings_from_spec(options, registration, next(listed, {}))
        exposed = ((option.flag, exposed_hosts(manager, option.exposure)) for option in options if option.exposure)
        settings |= {flag: ",".join(hosts) for flag, hosts in exposed if hosts}
    return settings


def exposed_hosts(manager: meta.Object, protocol: str) -> list[str]:
    """Return by which hosts agents reach the server of a protocol, as `serverConfiguration` says."""
    rows = meta.rows_at(manager, "spec", "serverConfiguration", "endpointsExposure")
    ways = [meta.mapping_at(row, protocol) for row in rows if row.get("protocol") == protocol]
    hosts = [str(meta.mapping_at(way, str(way.get("type") or "hostname")).get("host") or "") for way in ways]
    return [host for host in hosts if host]


def enabled_servers(manager: meta.Object, catalog: Catalog = CATALOG) -> list[HubServer]:
    return [driver.server for driver in enabled_drivers(manager, catalog) if isinstance(driver, HasServer)]


def account_annotations(manager: meta.Object, catalog: Catalog = CATALOG) -> dict[str, str]:
    """Return what the enabled drivers need on the ServiceAccount of the hub's controllers."""
    settings, annotations = hub_settings(manager, catalog), dict[str, str]()
    for driver in enabled_drivers(manager, catalog):
        annotations |= driver.hub_account_annotations(settings) if isinstance(driver, AnnotatesHubAccount) else {}
    return annotations


def enabled_drivers(manager: meta.Object, catalog: Catalog) -> list[ClusterDriver]:
    """Return the drivers by which clusters register with this hub; the default one where the spec lists none."""
    listed = meta.rows_at(_registration(manager), DRIVER_LIST)
    return catalog.known(str(entry.get("authType") or catalog.default) for entry in listed or [{}])


def _registration(manager: meta.Object) -> Mapping[str, Any]:
    return meta.mapping_at(manager, "spec", "registrationConfiguration")


def hub_manifests(manager: meta.Object, *, image: str = IMAGE) -> list[meta.Manifest]:
    """Return what the operator applies for a hub: bound to roles that exist, so that it need not hold their rights."""
    prefix = f"open-cluster-management:operated:{manager['metadata']['name']}"
    return [
        rendering.namespace(HUB_NAMESPACE),
        rendering.service_account(CONTROLLER.name, HUB_NAMESPACE, account_annotations(manager)),
        rendering.cluster_binding(f"{prefix}:controller", HUB_ROLE, CONTROLLER),
        rendering.service_account(CLEANER.name, HUB_NAMESPACE),
        rendering.cluster_binding(f"{prefix}:cluster-cleaner", CLEANER_ROLE, CLEANER),
        *(row for server in enabled_servers(manager) for row in server_bindings(manager, server, CONTROLLER)),
        *([accounts_binding(manager)] if is_enabled(manager, ACCOUNTS_GATE) else []),
        *_workloads(manager, image),
    ]


def accounts_binding(manager: meta.Object) -> meta.Manifest:
    """Return what lets the hub serve managed service accounts: the right to their Secrets, and to them."""
    name = f"open-cluster-management:operated:{manager['metadata']['name']}:accounts"
    return rendering.cluster_binding(name, ACCOUNTS_ROLE, CONTROLLER)


def _workloads(manager: meta.Object, image: str) -> list[meta.Manifest]:
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
    return [rendering.deployment(workload), cleaner_job(manager, chosen), *servers]


def replicas_of(manager: meta.Object) -> int:
    """Return how many replicas of the controllers and of each server run: one, unless the annotation says more."""
    text = meta.annotations_of(manager).get(Annotation.REPLICAS, "")
    return max(int(text), 1) if text.isdecimal() and text.isascii() and len(text) <= 4 else 1


def cleaner_job(manager: meta.Object, image: str) -> meta.Manifest:
    retention = left_cluster_retention(manager)
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
        **pod_fields(manager),
    }
    spec = {
        "schedule": "*/10 * * * *",
        "concurrencyPolicy": "Forbid",
        # A Job that cannot start, of an image that cannot be pulled, makes room for the next.
        "jobTemplate": {
            "spec": {"backoffLimit": 1, "activeDeadlineSeconds": rendering.JOB_DEADLINE, "template": {"spec": pod}}
        },
    }
    return rendering.labelled(CRON_JOBS, ObjectKey(HUB_NAMESPACE, CLEANER_JOB), spec=spec)


RECHECK = timedelta(seconds=5)


class ClusterManagerReconciler(Struct, frozen=True):
    """Reconciles ClusterManager; triggered by what was deployed for it."""

    reader: Reader
    client: Client
    status: StatusWriter
    image: str = ""  # empty: that of the operator itself

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Deploy the hub, or remove its controllers; clusters and their kinds stay."""
        found = self.reader.get(CLUSTER_MANAGERS, key)
        if found is None:
            return Done()
        applier = OwnedObjectApplier(self.reader, self.client)
        if meta.is_deleting(found):
            return await self._remove(found, applier)
        objection = validate_cluster_manager(found)
        if objection is not None:  # what runs keeps running
            await self._report(found, [objection])
            return Done()
        found = await add_finalizer(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return await self._deploy(found, applier)

    async def _deploy(self, found: meta.Object, applier: OwnedObjectApplier) -> Outcome:
        try:
            image = self.image or image_of_operator(self.reader.get(DEPLOYMENTS, OPERATOR))
            rows = await applier.apply(found, hub_manifests(found, image=image))
            if not is_enabled(found, ACCOUNTS_GATE):
                await applier.remove(found, [accounts_binding(found)])
        except (ApiStatusError, BeingDeleted, NameConflict) as error:
            if isinstance(error, Conflict):
                raise
            message = await describe_failure(self.client, error, HUB_NAMESPACE, remedy="watchword init")
            applied = Condition.false(conditions.APPLIED, "ClusterManagerApplyFailed", message)
            await self._report(found, [applied])
            raise
        applied = Condition.true(conditions.APPLIED, "ClusterManagerApplied", "everything is as the spec says")
        await self._report(found, [applied, *decide_hub_conditions(rows)], rows)
        return Done()

    async def _remove(self, found: meta.Object, applier: OwnedObjectApplier) -> Outcome:
        if Finalizer.CLUSTER_MANAGER not in meta.finalizers_of(found):
            return Done()
        rows = [row for row in (*hub_manifests(found), accounts_binding(found)) if row[0] is not NAMESPACES]
        first = [row for row in rows if row[0] is DEPLOYMENTS]
        waiting = await applier.remove(found, first) or await applier.remove(found, rows)
        if waiting:
            message = f"waiting for the deletion of {', '.join(waiting)}"
            await self._report(found, [Condition.false(conditions.APPLIED, "ClusterManagerDeleting", message)])
            return RetryAfter(RECHECK)
        await applier.remove(found, [rendering.namespace(HUB_NAMESPACE)])
        await remove_finalizer(self.client, CLUSTER_MANAGERS, found, Finalizer.CLUSTER_MANAGER)
        return Done()

    async def _report(self, found: meta.Object, said: list[Condition], rows: Iterable[meta.Manifest] = ()) -> None:
        features = conditions.decide_feature_gates(found, HUB_FEATURES)
        await report_status(self.status, CLUSTER_MANAGERS, found, [*said, features], rows)


def decide_hub_conditions(rows: Iterable[meta.Manifest]) -> list[Condition]:
    hub = next((obj for resource, obj in rows if resource is DEPLOYMENTS), None)
    rollout = conditions.describe_rollout(hub)
    progressing = Condition.false(conditions.PROGRESSING, "ClusterManagerUpToDate", "all pods run the newest spec")
    if rollout:
        progressing = Condition.true(conditions.PROGRESSING, "ClusterManagerDeploymentRolling", rollout)
    return [
        progressing,
        conditions.decide_available(hub, "ClusterManagerAvailable"),
        conditions.decide_degraded(conditions.HUB_REGISTRATION_DEGRADED, hub),
    ]


def validate_cluster_manager(manager: meta.Object) -> Condition | None:
    spec = meta.mapping_at(manager, "spec")
    mode = str(meta.mapping_at(spec, "deployOption").get("mode") or "Default")
    if mode != "Default":
        return Condition.false(
            conditions.APPLIED, "UnsupportedDeployOption", f"deployOption.mode {mode!r} is not supported: use Default"
        )
    enabled = []
    for entry in meta.rows_at(spec, "registrationConfiguration", DRIVER_LIST):
        try:
            enabled.append(CATALOG.find(str(entry.get("authType") or "")).name)
        except UnknownDriver as unknown:
            return Condition.false(
                conditions.APPLIED, "UnknownRegistrationDriver", f"registrationDrivers.authType: {unknown}"
            )
    return validate_settings(CATALOG.validate(Side.HUB, hub_settings(manager, CATALOG), *enabled))
