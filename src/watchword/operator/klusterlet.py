"""Keeps the agent deployed as its Klusterlet specifies, and reports its state."""

import base64
import binascii
import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from watchword.credentials.driver import (
    Settings,
    Side,
    settings_from_spec,
    settings_to_flags,
    validate_options,
)
from watchword.credentials.errors import UnknownDriver
from watchword.kube.client import Client
from watchword.kube.errors import ApiStatusError, Conflict, KubeError, NotFound
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.operator import conditions, rendering
from watchword.operator.applier import OWNER_ANNOTATION, OwnedObjectApplier, delete_exact, owner_annotation
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
BOOTSTRAP_ANNOTATION = "operator.watchword.dev/bootstrap"


def namespace_of(klusterlet: meta.Object) -> str:
    return str(meta.mapping_at(klusterlet, "spec").get("namespace") or AGENT_NAMESPACE)


def agent_flags(klusterlet: meta.Object, catalog: Catalog = CATALOG) -> list[str]:
    """Return the agent's command line, rendered from the spec; what is unset is left to the agent's defaults."""
    spec = meta.mapping_at(klusterlet, "spec")
    registration, work = meta.mapping_at(spec, "registrationConfiguration"), meta.mapping_at(spec, "workConfiguration")
    flags = [
        f"--spoke-cluster-name={spec.get('clusterName') or klusterlet['metadata']['name']}",
        f"--namespace={namespace_of(klusterlet)}",
        f"--bootstrap-kubeconfig={BOOTSTRAP_MOUNT}/kubeconfig",
        f"--hub-kubeconfig-secret={HUB_KUBECONFIG_SECRET}",
        *_driver_flags(registration, catalog),
        *_registration_flags(registration),
        *_work_flags(work),
    ]
    urls = [str(row.get("url")) for row in meta.rows_at(spec, "externalServerURLs") if row.get("url")]
    if urls:
        flags.append(f"--spoke-external-server-urls={','.join(urls)}")
    names = meta.annotations_of(klusterlet).get(Annotation.WORK_NAMESPACES, "").replace(" ", "")
    if names:
        flags.append(f"--work-namespaces={names}")
    return [*flags, *format_gates(klusterlet, AGENT_FEATURES)]


def _registration_flags(registration: Mapping[str, Any]) -> list[str]:
    flags = []
    for flag, field in (("--cluster-annotations", "clusterAnnotations"), ("--cluster-labels", "clusterLabels")):
        pairs = ",".join(f"{name}={value}" for name, value in sorted(meta.mapping_at(registration, field).items()))
        if pairs:
            flags.append(f"{flag}={pairs}")
    claims = meta.mapping_at(registration, "clusterClaimConfiguration")
    if claims.get("maxCustomClusterClaims") is not None:
        flags.append(f"--max-custom-cluster-claims={claims['maxCustomClusterClaims']}")
    suffixes = ",".join(map(str, meta.list_at(claims, "reservedClusterClaimSuffixes")))
    if suffixes:
        flags.append(f"--reserved-cluster-claim-suffixes={suffixes}")
    return flags


def _driver_flags(registration: Mapping[str, Any], catalog: Catalog) -> list[str]:
    options = (*catalog.options(Side.CLUSTER), *ADDON_CATALOG.options)
    names = (
        ("--registration-auth", "registrationDriver"),
        ("--addon-kubeclient-registration-auth", "addOnKubeClientRegistrationDriver"),
    )
    chosen = [(flag, meta.mapping_at(registration, field).get("authType")) for flag, field in names]
    flags = [f"{flag}={name}" for flag, name in chosen if name]
    return [*flags, *settings_to_flags(options, settings_from_spec(options, registration))]


def _work_flags(work: Mapping[str, Any]) -> list[str]:
    known = {
        "appliedManifestWorkEvictionGracePeriod": "--appliedmanifestwork-eviction-grace-period",
        "statusSyncInterval": "--status-sync-interval",
    }
    return [f"{flag}={work[field]}" for field, flag in known.items() if work.get(field)]


def agent_manifests(klusterlet: meta.Object, *, image: str = IMAGE, bootstrap: str = "") -> list[meta.Manifest]:
    """Return what the operator applies for an agent: bound to existing roles, so that it need not hold their rights.

    `bootstrap` stands for the content of the bootstrap Secret: an agent that waits for one, or whose hub moved,
    is started anew with what is there now.
    """
    namespace, subject = namespace_of(klusterlet), service_account_of(klusterlet)
    prefix = f"open-cluster-management:operated:{klusterlet['metadata']['name']}"
    places = (namespace, addon_namespace(namespace))
    return [
        *_namespaces_and_account(klusterlet),
        rendering.cluster_binding(f"{prefix}:agent", AGENT_ROLE, subject),
        rendering.cluster_binding(f"{prefix}:work", EXECUTION_ROLE, subject),
        *(
            binding
            for place in places
            for binding in rendering.role_with_binding(
                ObjectKey(place, f"{prefix}:agent"), (), subject, existing_role=AGENT_OWN_ROLE
            )
        ),
        agent_deployment(klusterlet, image=image, bootstrap=bootstrap),
    ]


def service_account_of(klusterlet: meta.Object) -> ObjectKey:
    """Return the ServiceAccount that the agent runs as; a driver may expect another name than the usual one."""
    driver = _choose_driver(_registration_of(klusterlet))
    suffix = driver.account_suffix if isinstance(driver, AnnotatesAgentAccount) else DEFAULT_ACCOUNT_SUFFIX
    return ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-{suffix}")


def _namespaces_and_account(klusterlet: meta.Object) -> list[meta.Manifest]:
    namespace, subject = namespace_of(klusterlet), service_account_of(klusterlet)
    return [
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(namespace))),
        (NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(addon_namespace(namespace)))),
        rendering.service_account(subject.name, namespace, _account_annotations(_registration_of(klusterlet))),
    ]


def agent_deployment(klusterlet: meta.Object, *, image: str = IMAGE, bootstrap: str = "") -> meta.Manifest:
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    return rendering.deployment(
        rendering.Workload(
            key=ObjectKey(namespace_of(klusterlet), f"{klusterlet['metadata']['name']}-agent"),
            service_account=service_account_of(klusterlet).name,
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


def _account_annotations(registration: Mapping[str, Any]) -> dict[str, str]:
    settings = settings_from_spec(CATALOG.options(Side.CLUSTER), registration)
    driver = _choose_driver(registration)
    return dict(driver.account_annotations(settings)) if isinstance(driver, AnnotatesAgentAccount) else {}


def _registration_of(klusterlet: meta.Object) -> Mapping[str, Any]:
    return (klusterlet.get("spec") or {}).get("registrationConfiguration") or {}


def _choose_driver(registration: Mapping[str, Any]) -> ClusterDriver:
    """Return the driver that the spec names; the default when it names none, or an unknown one."""
    named = str((registration.get("registrationDriver") or {}).get("authType"))
    return next(iter(CATALOG.known([named])), CATALOG.find(""))


def pod_fields(deployed: meta.Object) -> dict[str, Any]:
    spec: Mapping[str, Any] = deployed.get("spec") or {}
    placement: Mapping[str, Any] = spec.get("nodePlacement") or {}
    fields: dict[str, Any] = {name: placement[name] for name in ("nodeSelector", "tolerations") if placement.get(name)}
    if spec.get("priorityClassName"):
        fields["priorityClassName"] = spec["priorityClassName"]
    alias: Mapping[str, Any] = spec.get("hubApiServerHostAlias") or {}
    if alias:
        fields["hostAliases"] = [{"ip": alias["ip"], "hostnames": [alias["hostname"]]}]
    return {**fields, **pull_secret_fields(deployed)}


def pull_secret_fields(deployed: meta.Object) -> dict[str, Any]:
    names = meta.annotations_of(deployed).get(Annotation.IMAGE_PULL_SECRETS, "").split(",")
    references = [{"name": name.strip()} for name in names if name.strip()]
    return {"imagePullSecrets": references} if references else {}


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


class SpecError(Struct, frozen=True):
    """Why a spec is refused: a reason for programs, a sentence for people."""

    reason: str
    message: str


def validate_klusterlet(klusterlet: meta.Object) -> SpecError | None:
    """Return what has to be changed first, or None."""
    spec, registration = (
        meta.mapping_at(klusterlet, "spec"),
        meta.mapping_at(klusterlet, "spec", "registrationConfiguration"),
    )
    mode = str(meta.mapping_at(spec, "deployOption").get("mode") or "Default")
    if mode not in AGENT_MODES:
        message = f"deployOption.mode {mode!r} is not supported: choose one of {', '.join(AGENT_MODES)}"
        return SpecError("UnsupportedDeployOption", message)
    name = validate_cluster_name(str(spec.get("clusterName") or klusterlet["metadata"]["name"]))
    if name:
        return SpecError("InvalidClusterName", f"clusterName: {name}")
    return _validate_drivers(
        str(meta.mapping_at(registration, "registrationDriver").get("authType") or ""),
        str(meta.mapping_at(registration, "addOnKubeClientRegistrationDriver").get("authType") or ""),
        settings_from_spec((*CATALOG.options(Side.CLUSTER), *ADDON_CATALOG.options), registration),
    )


def _validate_drivers(cluster: str, addons: str, settings: Settings) -> SpecError | None:
    try:
        chosen = CATALOG.find(cluster).name
    except UnknownDriver as unknown:
        return SpecError("UnknownRegistrationDriver", f"registrationDriver.authType: {unknown}")
    try:
        ADDON_CATALOG.find(addons)
    except UnknownDriver as unknown:
        return SpecError("UnknownAddOnDriver", f"addOnKubeClientRegistrationDriver.authType: {unknown}")
    return validate_settings(
        [*CATALOG.validate(Side.CLUSTER, settings, chosen), *validate_options(ADDON_CATALOG.options, settings)]
    )


def validate_settings(objections: list[str]) -> SpecError | None:
    return SpecError("InvalidDriverSettings", "; ".join(objections)) if objections else None


RECHECK = timedelta(seconds=5)


class KlusterletRemoval(Struct, frozen=True):
    """Agent, then the records of its work, then rights and credential, then the namespaces it made."""

    reader: Reader
    client: Client
    applier: OwnedObjectApplier
    status: StatusWriter

    async def remove(self, klusterlet: meta.Object) -> Outcome:
        """Take the next step; triggered again when something is deleted."""
        if Finalizer.KLUSTERLET not in meta.finalizers_of(klusterlet):
            return Done()
        rows = agent_manifests(klusterlet)
        agent = [row for row in rows if row[0] is DEPLOYMENTS]
        waiting = await self.applier.remove(klusterlet, agent)
        if waiting:
            # While the agent runs, it would write again what is removed here.
            return await self._wait(klusterlet, waiting)
        await self._delete_work_records(klusterlet)
        await self._delete_credential(klusterlet)
        rights = [row for row in rows if row[0] not in (DEPLOYMENTS, NAMESPACES)]
        waiting = await self.applier.remove(klusterlet, rights)
        if waiting:
            return await self._wait(klusterlet, waiting)
        await self._delete_namespaces(klusterlet)
        await remove_finalizer(self.client, KLUSTERLETS, klusterlet, Finalizer.KLUSTERLET)
        return Done()

    async def _wait(self, klusterlet: meta.Object, waiting: Sequence[str]) -> Outcome:
        message = f"waiting for {', '.join(waiting)} to be gone"
        await report_status(
            self.status, KLUSTERLETS, klusterlet, [Condition.false("Applied", "KlusterletDeleting", message)]
        )
        return RetryAfter(RECHECK)

    async def _delete_work_records(self, klusterlet: meta.Object) -> None:
        """Delete the records of the hub that is left; what they own is deleted with them, what was orphaned stays."""
        others = self._others(klusterlet)
        own = hub_hash(self.reader.get(SECRETS, self._secret(klusterlet)))
        for record in self.reader.list(APPLIED_MANIFEST_WORKS):
            if others and (record.get("spec") or {}).get("hubHash") != own:
                continue
            await self._delete_record(record)

    async def _delete_record(self, record: meta.Object) -> None:
        """Remove the finalizer of a record whose agent is gone; the garbage collector does the rest."""
        try:
            await remove_finalizer(self.client, APPLIED_MANIFEST_WORKS, record, Finalizer.APPLIED_WORK)
            if not meta.is_deleting(record):
                await delete_exact(self.client, APPLIED_MANIFEST_WORKS, record)
        except (NotFound, Conflict):
            return

    async def _delete_credential(self, klusterlet: meta.Object) -> None:
        secret = self.reader.get(SECRETS, self._secret(klusterlet))
        shared = any(namespace_of(other) == namespace_of(klusterlet) for other in self._others(klusterlet))
        if secret is not None and not shared and not meta.is_deleting(secret):
            await delete_exact(self.client, SECRETS, secret)

    async def _delete_namespaces(self, klusterlet: meta.Object) -> None:
        used = {place for other in self._others(klusterlet) for place in _namespaces(other)}
        for place in _namespaces(klusterlet):
            found = self.reader.get(NAMESPACES, ObjectKey.cluster(place))
            ours = found is not None and meta.annotations_of(found).get(OWNER_ANNOTATION) == owner_annotation(
                klusterlet
            )
            if found is not None and ours and place not in used and not meta.is_deleting(found):
                await delete_exact(self.client, NAMESPACES, found)

    def _others(self, klusterlet: meta.Object) -> list[meta.Object]:
        name = klusterlet["metadata"]["name"]
        return [
            other
            for other in self.reader.list(KLUSTERLETS)
            if other["metadata"]["name"] != name and not meta.is_deleting(other)
        ]

    def _secret(self, klusterlet: meta.Object) -> ObjectKey:
        return ObjectKey(namespace_of(klusterlet), HUB_KUBECONFIG_SECRET)


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
            return await KlusterletRemoval(self.reader, self.client, applier, self.status).remove(found)
        objection = validate_klusterlet(found)
        if objection is not None:  # an invalid spec must not remove a running agent
            applied = Condition.false(conditions.APPLIED, objection.reason, objection.message)
            await self._report(found, [applied, self._features(found)])
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
            await self._report(found, [applied, self._features(found)])
            raise
        applied = Condition.true(conditions.APPLIED, "KlusterletApplied", "everything is as the spec says")
        await self._report(found, [applied, self._features(found), *self._decide_conditions(found, rows)], rows)
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

    def _features(self, found: meta.Object) -> Condition:
        return conditions.decide_feature_gates(found, AGENT_FEATURES)

    async def _report(self, found: meta.Object, said: list[Condition], rows: Iterable[meta.Manifest] = ()) -> None:
        await report_status(self.status, KLUSTERLETS, found, said, rows)


def fingerprint(secret: meta.Object | None) -> str:
    """Return a short hash that changes with the content of a Secret and reveals nothing about it."""
    if secret is None:
        return ""
    salted = [meta.uid_of(secret), secret.get("data") or {}]
    return hashlib.sha256(orjson.dumps(salted, option=orjson.OPT_SORT_KEYS)).hexdigest()[:16]
