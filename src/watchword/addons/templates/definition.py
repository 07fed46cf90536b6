"""Reads an AddOnTemplate as the definition of an add-on, so that an add-on can be described by manifests alone."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from watchword.addons.definition import BY_FEEDBACK, AddonDefinition, AddonInstance, Grant, Signer
from watchword.addons.templates import rendering
from watchword.addons.templates.deployment_config import DeploymentConfig, mirrors_from_annotation
from watchword.api import resources
from watchword.api.addon import Addon, AddonSubject, requested_namespace
from watchword.api.conditions import Condition
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, mapping_at, rows_at
from watchword.api.names import ADDON_NAMESPACE, HUB_NAMESPACE, HUB_SERVICE_ACCOUNT, Annotation, ConditionType, Label
from watchword.runtime.cache import Cache

ANY_CLUSTER = "{{any cluster}}"  # stands for the name of a cluster; rendering leaves no such text in a template
SHARED_DEFINITIONS = 256
BY_CONFIG = "config"  # the index of add-ons by the AddOnDeploymentConfigs that they name


class TemplateDefinitionLookup(Struct, frozen=True):
    """Finds the template of an add-on: the one its spec names, else the default of the add-on's kind."""

    reader: Cache
    signing_namespaces: frozenset[str] = frozenset({HUB_NAMESPACE})
    shared: dict[tuple[str, ...], AddonDefinition] = field(default_factory=dict)  # by versions: see `_find_shared`

    def __call__(self, addon: Object) -> AddonDefinition | None:
        """Return the definition, None when the add-on is not described by a template."""
        name = addon["metadata"]["name"]
        known = self.reader.get(resources.CLUSTER_MANAGEMENT_ADDONS, ObjectKey.cluster(name)) or {}
        wanted = next(config_keys(addon, known, resources.ADDON_TEMPLATES), None)
        template = self.reader.get(resources.ADDON_TEMPLATES, wanted) if wanted else None
        if template is None or (template.get("spec") or {}).get("addonName") != name:
            return None
        key = next(config_keys(addon, known, resources.ADDON_DEPLOYMENT_CONFIGS), None)
        if key is None:
            return self._find_shared(template, addon, known)
        config = self.reader.get(resources.ADDON_DEPLOYMENT_CONFIGS, key)
        described = self._read(template, addon, known, DeploymentConfig.read(config or {}))
        if config is not None:
            return described
        advice = f"there is no AddOnDeploymentConfig {key}: create it, or name another in the configs of {name}"
        missing = Condition.false(ConditionType.MANIFEST_APPLIED, "ConfigurationNotFound", advice)
        return replace(described, objection=missing, install_namespace=Addon.read(addon).namespace_on_cluster())

    def _read(self, template: Object, addon: Object, known: Object, config: DeploymentConfig) -> AddonDefinition:
        described = read_template(template, addon, config)
        signers = tuple(restrict_signing_authority(signer, self.signing_namespaces) for signer in described.signers)
        return replace(described, signers=signers, trusted=trusted_grants(known))

    def _find_shared(self, template: Object, addon: Object, known: Object) -> AddonDefinition:
        """Return what a template without settings describes: read and rendered once for all clusters."""
        key, namespace = ObjectKey.of(addon), requested_namespace(addon)
        versions = (_version(template), _version(known), key.name, namespace)
        found = self.shared.get(versions)
        if found is None:
            anywhere = {
                "metadata": {"name": key.name, "namespace": ANY_CLUSTER},
                "spec": {"installNamespace": namespace},
            }
            found = self._read(template, anywhere, known, DeploymentConfig())
            if len(self.shared) >= SHARED_DEFINITIONS:
                self.shared.clear()
            self.shared[versions] = found
        if ANY_CLUSTER not in found.install_namespace:
            return found
        return replace(found, install_namespace=found.install_namespace.replace(ANY_CLUSTER, key.namespace))

    def addons_affected_by(self, changed: Object) -> list[ObjectKey]:
        name = str((changed.get("spec") or {}).get("addonName") or changed["metadata"]["name"])
        return self._addons_of(name)

    def addons_affected_by_config(self, config: Object) -> list[ObjectKey]:
        """Map an AddOnDeploymentConfig to the add-ons that name it, or whose kind does."""
        key = ObjectKey.of(config)
        named = self.reader.index_keys(resources.MANAGED_CLUSTER_ADDONS, BY_CONFIG, str(key))
        kinds = self.reader.list(resources.CLUSTER_MANAGEMENT_ADDONS)
        default = [kind for kind in kinds if key in config_keys({}, kind, resources.ADDON_DEPLOYMENT_CONFIGS)]
        return [*named, *(key for kind in default for key in self._addons_of(kind["metadata"]["name"]))]

    def addons_affected_by_cluster(self, cluster: Object) -> list[ObjectKey]:
        """Map a cluster that says where its images come from to its add-ons."""
        if Annotation.IMAGE_REGISTRIES not in annotations_of(cluster):
            return []
        addons = self.reader.list(resources.MANAGED_CLUSTER_ADDONS, namespace=cluster["metadata"]["name"])
        return [ObjectKey.of(obj) for obj in addons]

    def _addons_of(self, name: str) -> list[ObjectKey]:
        return [key for key in self.reader.keys(resources.MANAGED_CLUSTER_ADDONS) if key.name == name]


def _version(obj: Object) -> str:
    return str(mapping_at(obj, "metadata").get("resourceVersion") or "")


def config_keys(addon: Object, known: Object, resource: Resource) -> Iterator[ObjectKey]:
    """Return the configurations of a kind that are named, the nearest first.

    The status is left out: the agent can write it.
    """
    yield from _named(rows_at(addon, "spec", "configs"), resource)
    yield from _named(rows_at(known, "spec", "defaultConfigs"), resource)
    for row in rows_at(known, "spec", "supportedConfigs"):
        yield from _named([{**row, **mapping_at(row, "defaultConfig")}], resource)


def _named(rows: Iterable[Object], resource: Resource) -> Iterator[ObjectKey]:
    for row in rows:
        if (row.get("group"), row.get("resource")) == (resource.group, resource.plural) and row.get("name"):
            yield ObjectKey(str(row.get("namespace") or "") if resource.namespaced else "", str(row["name"]))


def index_by_config(addon: Object) -> list[str]:
    """Return one value for each AddOnDeploymentConfig that an add-on names: the index `BY_CONFIG`."""
    return [str(key) for key in config_keys(addon, {}, resources.ADDON_DEPLOYMENT_CONFIGS)]


def trusted_grants(known: Object) -> frozenset[str]:
    text = annotations_of(known).get(Annotation.ADDON_TRUSTED_GRANTS, "")
    return frozenset(part.strip() for part in text.split(",") if part.strip())


def read_template(template: Object, addon: Object, config: DeploymentConfig) -> AddonDefinition:
    spec = mapping_at(template, "spec")
    rows, work = rows_at(spec, "registration"), mapping_at(spec, "agentSpec")
    manifests = rows_at(work, "workload", "manifests")
    key, name = ObjectKey.of(addon), str(spec.get("addonName") or "")
    namespace = config.namespace or requested_namespace(addon) or ADDON_NAMESPACE
    context = rendering.TemplateContext(name, key.namespace, namespace, rendering.read_registrations(rows), config)

    size = rendering.rendered_size(manifests, context) if config != DeploymentConfig() else 0
    too_large = Condition.false(
        ConditionType.MANIFEST_APPLIED,
        "ConfigurationTooLarge",
        f"with its AddOnDeploymentConfig the add-on's manifests have {size} bytes, more than the limit of "
        f"{rendering.MAX_RENDERED_BYTES}: shorten them",
    )

    # The credential must be where the pods are that mount it.
    mounting = "" if size > rendering.MAX_RENDERED_BYTES else rendering.workload_namespace(manifests, context)
    install_namespace = mounting or namespace

    @cache
    def render_for_any_cluster() -> bytes:
        return orjson.dumps(rendering.render_manifests(manifests, replace(context, cluster=ANY_CLUSTER)))

    def render(instance: AddonInstance) -> list[Object]:
        if size > rendering.MAX_RENDERED_BYTES:
            return []
        said = instance.cluster.annotations.get(Annotation.IMAGE_REGISTRIES, "")
        if not said and config == DeploymentConfig():  # then the name of the cluster decides nothing, and is just text
            text = render_for_any_cluster().replace(ANY_CLUSTER.encode(), instance.cluster.name.encode())
            rendered: list[Object] = orjson.loads(text)
            return rendered
        mirrors = mirrors_from_annotation(said)
        return rendering.render_manifests(manifests, replace(context, cluster=instance.cluster.name, mirrors=mirrors))

    return AddonDefinition(
        name=name,
        grants=tuple(grant for row in rows if row.get("type") == "KubeClient" for grant in _grants(row)),
        signers=tuple(_signer(mapping_at(row, "customSigner")) for row in rows if row.get("type") == "CustomSigner"),
        manifests=render,
        manifest_configs=tuple(rows_at(work, "manifestConfigs")),
        uses_hub=any(row.get("type") == "KubeClient" for row in rows),
        install_namespace=install_namespace,
        health=BY_FEEDBACK,
        objection=too_large if size > rendering.MAX_RENDERED_BYTES else None,
    )


def _grants(row: Mapping[str, Any]) -> Iterable[Grant]:
    for permission in rows_at(row, "kubeClient", "hubPermissions"):
        if permission.get("type") == "CurrentCluster":
            name = str(mapping_at(permission, "currentCluster").get("clusterRoleName") or "")
            yield Grant(name, role=name, remedy=_allow_cluster_role(name))
        elif permission.get("type") == "SingleNamespace":
            single = mapping_at(permission, "singleNamespace")
            role, namespace = mapping_at(single, "roleRef"), str(single.get("namespace") or "")
            name, kind = str(role.get("name") or ""), str(role.get("kind"))
            remedy = _allow_cluster_role(name) if kind == "ClusterRole" else _allow_role(name, namespace)
            yield Grant(name, role=name, role_kind=kind, namespace=namespace, remedy=remedy)


def _allow_cluster_role(name: str) -> str:
    role = shlex.quote(name)  # names of roles may contain any character
    return f"an administrator lets add-ons have it with: kubectl label clusterrole {role} {Label.ADDON_GRANTABLE}=true"


def _allow_role(name: str, namespace: str) -> str:
    bind, account = shlex.quote(f"{name}-bind"), f"{HUB_NAMESPACE}:{HUB_SERVICE_ACCOUNT}"
    name, namespace = shlex.quote(name), shlex.quote(namespace)
    return (
        "an administrator lets the hub bind it with: "
        f"kubectl create role {bind} -n {namespace} --verb=bind --resource=roles --resource-name={name} && "
        f"kubectl create rolebinding {bind} -n {namespace} --role={bind} --serviceaccount={account}"
    )


def _signer(row: Mapping[str, Any]) -> Signer:
    authority, declared = mapping_at(row, "signingCA"), mapping_at(row, "subject")
    key = ObjectKey(str(authority.get("namespace") or HUB_NAMESPACE), str(authority.get("name") or ""))

    def subject(instance: AddonInstance) -> AddonSubject:
        variables = {"CLUSTER_NAME": instance.cluster.name}
        return AddonSubject.read(rendering.substitute_variables(declared, variables))

    return Signer(str(row.get("signerName") or ""), key, subject if declared.get("user") else None)


def restrict_signing_authority(signer: Signer, namespaces: frozenset[str]) -> Signer:
    """Return a signer that signs nothing when its authority lies where the hub keeps other people's keys.

    The hub reads the Secret with its own rights: an author of a template must not choose among all of them.
    """
    if signer.authority is None or signer.authority.namespace in namespaces:
        return signer
    objection = (
        f"the signing authority is in namespace {signer.authority.namespace}, and templates may name Secrets only in "
        f"{', '.join(sorted(namespaces))}: move it, or let the hub's administrator list the namespace with "
        "--signing-namespaces"
    )
    return replace(signer, objection=objection)
