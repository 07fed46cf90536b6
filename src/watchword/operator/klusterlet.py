"""Keeps the agent deployed as its Klusterlet specifies, and reports its state."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import orjson
from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api import meta
from watchword.api.cluster import validate_cluster_name
from watchword.api.conditions import Condition
from watchword.api.meta import ObjectKey
from watchword.api.names import (
    ADDON_NAMESPACE,
    AGENT_NAMESPACE,
    BOOTSTRAP_KUBECONFIG_SECRET,
    HUB_KUBECONFIG_SECRET,
    IMAGE,
    Annotation,
    Finalizer,
)
from watchword.api.resources import APPLIED_MANIFEST_WORKS, DEPLOYMENTS, KLUSTERLETS, NAMESPACES, SECRETS
from watchword.credentials.driver import Side, settings_from_spec, settings_to_flags, validate_options
from watchword.credentials.errors import UnknownDriver
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict, KubeError, NotFound
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.operator import conditions, rendering
from watchword.operator.applier import OwnedObjectApplier, delete_exact
from watchword.operator.conditions import AGENT_FEATURES, describe_failure, format_gates, report_status
from watchword.operator.rbac import AGENT_OWN_ROLE, AGENT_ROLE, EXECUTION_ROLE
from watchword.operator.rendering import OPERATOR, image_of_operator
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import AnnotatesAgentAccount, ClusterDriver
from watchword.runtime.clock import Clock
from watchword.runtime.ensure import add_finalizer, remove_finalizer
from watchword.runtime.errors import BeingDeleted, NameConflict
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter
from watchword.runtime.status import StatusWriter

BOOTSTRAP_MOUNT = "/spoke/bootstrap"
DEFAULT_ACCOUNT_SUFFIX = "sa"
CLUSTER_DRIVER, ADDON_DRIVER = "registrationDriver", "addOnKubeClientRegistrationDriver"
BOOTSTRAP_ANNOTATION = "operator.watchword.dev/bootstrap"


def namespace_of(klusterlet: meta.Object) -> str:
    return str(meta.mapping_at(klusterlet, "spec").get("namespace") or AGENT_NAMESPACE)


def agent_flags(klusterlet: meta.Object, catalog: Catalog = CATALOG) -> list[str]:
    """Return the agent's command line, rendered from the spec; what is unset is left to the agent's defaults."""
    spec = meta.mapping_at(klusterlet, "spec")
    registration, work = meta.mapping_at(spec, "registrationConfiguration"), meta.mapping_at(spec, "workConfiguration")
    claims = meta.mapping_at(registration, "clusterClaimConfiguration")
    options = (*catalog.options(Side.CLUSTER), *ADDON_CATALOG.options)
    urls = [str(row.get("url")) for row in meta.rows_at(spec, "externalServerURLs") if row.get("url")]
    names = meta.annotations_of(klusterlet).get(Annotation.WORK_NAMESPACES, "").replace(" ", "")
    return [
        f"--spoke-cluster-name={spec.get('clusterName') or klusterlet['metadata']['name']}",
        f"--namespace={namespace_of(klusterlet)}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_MOUNT}/kubeconfig",
        f"--hub-kubeconfig-secret={HUB_KUBECONFIG_SECRET}",
        *_flag("--registration-auth", meta.mapping_at(registration, CLUSTER_DRIVER).get("authType")),
        *_flag("--addon-kubeclient-registration-auth", meta.mapping_at(registration, ADDON_DRIVER).get("authType")),
        *settings_to_flags(options, settings_from_spec(options, registration)),
        *_flag("--cluster-annotations", _pairs(registration, "clusterAnnotations")),
        *_flag("--cluster-labels", _pairs(registration, "clusterLabels")),
        *_flag("--max-custom-cluster-claims", claims.get("maxCustomClusterClaims")),
        *_flag(
            "--reserved-cluster-claim-suffixes",
            ",".join(map(str, meta.list_at(claims, "reservedClusterClaimSuffixes"))),
        ),
        *_flag("--appliedmanifestwork-eviction-grace-period", work.get("appliedManifestWorkEvictionGracePeriod")),
        *_flag("--status-sync-interval", work.get("statusSyncInterval")),
        *_flag("--spoke-external-server-urls", ",".join(urls)),
        *_flag("--work-namespaces", names),
        *format_gates(klusterlet, AGENT_FEATURES),
    ]


def _flag(name: str, value: object) -> list[str]:
    return [f"{name}={value}"] if value or value == 0 else []


def _pairs(registration: Mapping[str, Any], field: str) -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(meta.mapping_at(registration, field).items()))


def agent_manifests(klusterlet: meta.Object, *, image: str = IMAGE, bootstrap: str = "") -> list[meta.Manifest]:
    """Return what the operator applies for an agent: bound to existing roles, so that it need not hold their rights.

    `bootstrap` stands for the content of the bootstrap Secret: an agent that waits for one, or whose hub moved,
    is started anew with what is there now.
    """
    subject, annotations = agent_account(klusterlet)
    prefix = f"open-cluster-management:operated:{klusterlet['metadata']['name']}"
    return [
        *map(rendering.namespace, _namespaces(klusterlet)),
        rendering.service_account(subject.name, subject.namespace, annotations),
        rendering.cluster_binding(f"{prefix}:agent", AGENT_ROLE, subject),
        rendering.cluster_binding(f"{prefix}:work", EXECUTION_ROLE, subject),
        *(
            rendering.binding_in_namespace(ObjectKey(place, f"{prefix}:agent"), AGENT_OWN_ROLE, subject)
            for place in _namespaces(klusterlet)
        ),
        agent_deployment(klusterlet, image=image, bootstrap=bootstrap),
    ]


def agent_account(klusterlet: meta.Object) -> tuple[ObjectKey, Mapping[str, str]]:
    """Return the ServiceAccount that the agent runs as, and its annotations; a driver may expect a name of its own."""
    registration = meta.mapping_at(klusterlet, "spec", "registrationConfiguration")
    named = str(meta.mapping_at(registration, CLUSTER_DRIVER).get("authType"))
    driver: ClusterDriver = next(iter(CATALOG.known([named])), CATALOG.find(""))
    suffix, annotations = DEFAULT_ACCOUNT_SUFFIX, dict[str, str]()
    if isinstance(driver, AnnotatesAgentAccount):
        settings = settings_from_spec(CATALOG.options(Side.CLUSTER), registration)
        suffix, annotations = driver.account_suffix, dict(driver.account_annotations(settings))
    return ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-{suffix}"), annotations


def agent_deployment(klusterlet: meta.Object, *, image: str = IMAGE, bootstrap: str = "") -> meta.Manifest:
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    return rendering.deployment(
        rendering.Workload(
            key=ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-agent"),
            service_account=agent_account(klusterlet)[0].name,
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


def pod_fields(deployed: meta.Object) -> dict[str, Any]:
    spec: Mapping[str, Any] = deployed.get("spec") or {}
    placement: Mapping[str, Any] = spec.get("nodePlacement") or {}
    fields: dict[str, Any] = {name: placement[name] for name in ("nodeSelector", "tolerations") if placement.get(name)}
    if spec.get("priorityClassName"):
        fields["priorityClassName"] = spec["priorityClassName"]
    alias: Mapping[str, Any] = spec.get("hubApiServerHostAlias") or {}
    if alias:
        fields["hostAliases"] = [{"ip": alias["ip"], "hostnames": [alias["hostname"]]}]
    names = meta.annotations_of(deployed).get(Annotation.IMAGE_PULL_SECRETS, "").split(",")
    references = [{"name": name.strip()} for name in names if name.strip()]
    return {**fields, **({"imagePullSecrets": references} if references else {})}


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


AGENT_MODES = ("Default", "Singleton")


def validate_klusterlet(klusterlet: meta.Object) -> Condition | None:
    spec, registration = (
        meta.mapping_at(klusterlet, "spec"),
        meta.mapping_at(klusterlet, "spec", "registrationConfiguration"),
    )
    mode = str(meta.mapping_at(spec, "deployOption").get("mode") or "Default")
    if mode not in AGENT_MODES:
        message = f"deployOption.mode {mode!r} is not supported: choose one of {', '.join(AGENT_MODES)}"
        return Condition.false(conditions.APPLIED, "UnsupportedDeployOption", message)
    name = validate_cluster_name(str(spec.get("clusterName") or klusterlet["metadata"]["name"]))
    if name:
        return Condition.false(conditions.APPLIED, "InvalidClusterName", f"clusterName: {name}")
    found = settings_from_spec((*CATALOG.options(Side.CLUSTER), *ADDON_CATALOG.options), registration)
    try:
        chosen = CATALOG.find(str(meta.mapping_at(registration, CLUSTER_DRIVER).get("authType") or "")).name
    except UnknownDriver as unknown:
        return Condition.false(
            conditions.APPLIED, "UnknownRegistrationDriver", f"registrationDriver.authType: {unknown}"
        )
    try:
        ADDON_CATALOG.find(str(meta.mapping_at(registration, ADDON_DRIVER).get("authType") or ""))
    except UnknownDriver as unknown:
        return Condition.false(
            conditions.APPLIED, "UnknownAddOnDriver", f"addOnKubeClientRegistrationDriver.authType: {unknown}"
        )
    return validate_settings(
        [*CATALOG.validate(Side.CLUSTER, found, chosen), *validate_options(ADDON_CATALOG.options, found)]
    )


def validate_settings(objections: list[str]) -> Condition | None:
    return Condition.false(conditions.APPLIED, "InvalidDriverSettings", "; ".join(objections)) if objections else None


RECHECK = timedelta(seconds=5)


class KlusterletRemoval(Struct, frozen=True):
    """Agent, then the records of its work, then rights and credential, then the namespaces it made."""

    applier: OwnedObjectApplier
    status: StatusWriter

    async def remove(self, klusterlet: meta.Object) -> Outcome:
        """Take the next step; triggered again when something is deleted."""
        if Finalizer.KLUSTERLET not in meta.finalizers_of(klusterlet):
            return Done()
        rows = agent_manifests(klusterlet)
        # While the agent runs, it would write again what is removed afterwards.
        waiting = await self.applier.remove(klusterlet, [row for row in rows if row[0] is DEPLOYMENTS])
        if not waiting:
            await self._delete_work_records(klusterlet)
            await self._delete_credential(klusterlet)
            rights = [row for row in rows if row[0] not in (DEPLOYMENTS, NAMESPACES)]
            waiting = await self.applier.remove(klusterlet, rights)
        if waiting:
            return await self._wait(klusterlet, waiting)
        used = {place for other in self._others(klusterlet) for place in _namespaces(other)}
        unused = [rendering.namespace(place) for place in _namespaces(klusterlet) if place not in used]
        await self.applier.remove(klusterlet, unused)
        await remove_finalizer(self.applier.client, KLUSTERLETS, klusterlet, Finalizer.KLUSTERLET)
        return Done()

    async def _wait(self, klusterlet: meta.Object, waiting: Sequence[str]) -> Outcome:
        message = f"waiting for the deletion of {', '.join(waiting)}"
        await report_status(
            self.status, KLUSTERLETS, klusterlet, [Condition.false("Applied", "KlusterletDeleting", message)]
        )
        return RetryAfter(RECHECK)

    async def _delete_work_records(self, klusterlet: meta.Object) -> None:
        """Delete the records of the hub that is left; what they own is deleted with them, what was orphaned stays.

        Their agent is gone, so their finalizer is removed here; the garbage collector does the rest.
        """
        others, own = self._others(klusterlet), hub_hash(self._credential(klusterlet))
        for record in self.applier.reader.list(APPLIED_MANIFEST_WORKS):
            if others and (record.get("spec") or {}).get("hubHash") != own:
                continue
            with suppress(NotFound, Conflict):
                client = self.applier.client
                await remove_finalizer(client, APPLIED_MANIFEST_WORKS, record, Finalizer.APPLIED_WORK)
                if not meta.is_deleting(record):
                    await delete_exact(client, APPLIED_MANIFEST_WORKS, record)

    async def _delete_credential(self, klusterlet: meta.Object) -> None:
        secret = self._credential(klusterlet)
        shared = any(namespace_of(other) == namespace_of(klusterlet) for other in self._others(klusterlet))
        if secret is not None and not shared and not meta.is_deleting(secret):
            await delete_exact(self.applier.client, SECRETS, secret)

    def _others(self, klusterlet: meta.Object) -> list[meta.Object]:
        name = klusterlet["metadata"]["name"]
        found = self.applier.reader.list(KLUSTERLETS)
        return [other for other in found if other["metadata"]["name"] != name and not meta.is_deleting(other)]

    def _credential(self, klusterlet: meta.Object) -> meta.Object | None:
        return self.applier.reader.get(SECRETS, ObjectKey(namespace_of(klusterlet), HUB_KUBECONFIG_SECRET))


def _namespaces(klusterlet: meta.Object) -> tuple[str, str]:
    namespace = namespace_of(klusterlet)
    return namespace, addon_namespace(namespace)


def hub_hash(secret: meta.Object | None) -> str:
    """Return the hash by which records name their hub, empty when the Secret does not tell."""
    try:
        kubeconfig = base64.b64decode(((secret or {}).get("data") or {}).get("kubeconfig") or "", validate=True)
        server = parse_kubeconfig(kubeconfig).choose().cluster.server
    except (KubeError, binascii.Error):
        return ""
    return hashlib.sha256(server.encode()).hexdigest()


CERTIFICATE_RECHECK = timedelta(hours=1)


class KlusterletReconciler(Struct, frozen=True):
    """Reconciles Klusterlet; triggered by what was deployed for it and by its agent's Secrets."""

    reader: Reader
    client: Client
    status: StatusWriter
    clock: Clock
    image: str = ""  # empty: that of the operator itself

    async def reconcile(self, key: ObjectKey) -> Outcome:
        found = self.reader.get(KLUSTERLETS, key)
        if found is None:
            return Done()
        applier = OwnedObjectApplier(self.reader, self.client)
        if meta.is_deleting(found):
            return await KlusterletRemoval(applier, self.status).remove(found)
        objection = validate_klusterlet(found)
        if objection is not None:  # an invalid spec must not remove a running agent
            await self._report(found, [objection])
            return Done()
        found = await add_finalizer(self.client, KLUSTERLETS, found, Finalizer.KLUSTERLET)
        return await self._deploy(found, applier)

    async def _deploy(self, found: meta.Object, applier: OwnedObjectApplier) -> Outcome:
        try:
            bootstrap = fingerprint(self._secret(found, BOOTSTRAP_KUBECONFIG_SECRET))
            image = self.image or image_of_operator(self.reader.get(DEPLOYMENTS, OPERATOR))
            wanted = agent_manifests(found, image=image, bootstrap=bootstrap)
            rows = await applier.apply(found, wanted)
        except (ApiStatusError, BeingDeleted, NameConflict) as error:
            if isinstance(error, Conflict):
                raise
            message = await describe_failure(self.client, error, namespace_of(found), remedy="watchword join")
            applied = Condition.false(conditions.APPLIED, "KlusterletApplyFailed", message)
            await self._report(found, [applied])
            raise
        applied = Condition.true(conditions.APPLIED, "KlusterletApplied", "everything is as the spec says")
        await self._report(found, [applied, *self._decide_conditions(found, rows)], rows)
        return RetryAfter(CERTIFICATE_RECHECK)

    def _decide_conditions(self, found: meta.Object, rows: Iterable[meta.Manifest]) -> list[Condition]:
        agent = next((obj for resource, obj in rows if resource is DEPLOYMENTS), None)
        bootstrap = self._secret(found, BOOTSTRAP_KUBECONFIG_SECRET)
        hub = self._secret(found, HUB_KUBECONFIG_SECRET)
        return [
            conditions.decide_available(agent, "klusterletAvailable"),
            conditions.decide_degraded(conditions.REGISTRATION_DEGRADED, agent),
            conditions.decide_degraded(conditions.WORK_DEGRADED, agent),
            conditions.decide_hub_connection(bootstrap, hub, now=self.clock.now()),
        ]

    def _secret(self, found: meta.Object, name: str) -> meta.Object | None:
        return self.reader.get(SECRETS, ObjectKey(namespace_of(found), name))

    async def _report(self, found: meta.Object, said: list[Condition], rows: Iterable[meta.Manifest] = ()) -> None:
        features = conditions.decide_feature_gates(found, AGENT_FEATURES)
        await report_status(self.status, KLUSTERLETS, found, [*said, features], rows)


def fingerprint(secret: meta.Object | None) -> str:
    """Return a short hash that changes with the content of a Secret and reveals nothing about it."""
    if secret is None:
        return ""
    salted = [meta.uid_of(secret), secret.get("data") or {}]
    return hashlib.sha256(orjson.dumps(salted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
