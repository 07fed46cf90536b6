"""Renders the manifests of an AddOnTemplate for one cluster, as Open Cluster Management renders them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct, field

from watchword.addons.templates.deployment_config import DeploymentConfig, ImageMirror, rewrite_image
from watchword.api.addon import CUSTOM_SIGNER, KUBE_CLIENT, Registration
from watchword.api.meta import Object, ObjectKey, mapping_at
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CONFIG_MAPS

MOUNTS = "/managed"
HUB_KUBECONFIG_MOUNT = f"{MOUNTS}/hub-kubeconfig"
PROXY_CA_MOUNT = f"{MOUNTS}/proxy-ca"
PROXY_CA_KEY = "ca-bundle.crt"
WORKLOADS = {"Deployment": "deployments", "DaemonSet": "daemonsets"}
MAX_RENDERED_BYTES = 4 * 1024 * 1024  # an API server stores a template of about 1.5 MiB
_HEAD = ("apiVersion", "kind", "metadata")
_VARIABLE = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)


class TemplateContext(Struct, frozen=True):
    """What a template is rendered for."""

    addon: str
    cluster: str
    namespace: str  # where the agent is installed, unless the template says otherwise
    registrations: tuple[Registration, ...] = ()
    config: DeploymentConfig = field(default_factory=DeploymentConfig)
    mirrors: tuple[ImageMirror, ...] = ()

    @property
    def variables(self) -> dict[str, str]:
        """The values of `{{NAME}}`: variables cannot replace the name of the cluster and the namespace."""
        own = {"CLUSTER_NAME": self.cluster, "INSTALL_NAMESPACE": self.namespace}
        hub = {"HUB_KUBECONFIG": f"{HUB_KUBECONFIG_MOUNT}/kubeconfig"} if self.registrations else {}
        return {**hub, **self.config.variables, **own}

    @property
    def environment(self) -> list[Object]:
        names = ["HUB_KUBECONFIG"] if self.registrations else []
        names += ["CLUSTER_NAME", "INSTALL_NAMESPACE"] if self.config.namespace else ["CLUSTER_NAME"]
        rows = [(name, self.variables[name]) for name in names] + list(self.config.proxy_variables)
        if self.has_proxy_ca:
            rows.append(("CA_BUNDLE_FILE_PATH", f"{PROXY_CA_MOUNT}/{PROXY_CA_KEY}"))
        return [{"name": name, "value": value} for name, value in rows]

    @property
    def has_proxy_ca(self) -> bool:
        return bool(self.config.proxy_variables and self.config.proxy_ca)

    @property
    def volumes(self) -> list[tuple[Object, str]]:
        """The volumes that every container gets, with where they are mounted: its credentials above all."""
        rows = [_credential_volume(row, self.addon) for row in self.registrations]
        if self.has_proxy_ca:
            volume = {"name": "proxy-ca-bundle", "configMap": {"name": _proxy_ca_name(self.addon)}}
            rows.append((volume, PROXY_CA_MOUNT))
        return rows


def read_registrations(rows: Iterable[Mapping[str, Any]]) -> tuple[Registration, ...]:
    return tuple(
        Registration(KUBE_CLIENT, KUBE_CLIENT_SIGNER)
        if row.get("type") == "KubeClient"
        else Registration(CUSTOM_SIGNER, str(mapping_at(row, "customSigner").get("signerName") or ""))
        for row in rows
        if row.get("type") in ("KubeClient", "CustomSigner")
    )


def render_manifests(manifests: Sequence[Object], context: TemplateContext) -> list[Object]:
    rendered = [_with_settings(substitute_variables(obj, context.variables), context) for obj in manifests]
    if context.config.proxy_ca:
        key = ObjectKey(context.namespace, _proxy_ca_name(context.addon))
        rendered.append(CONFIG_MAPS.manifest(key, data={PROXY_CA_KEY: context.config.proxy_ca}))
    namespace = context.config.namespace
    return [with_namespace(obj, namespace) for obj in rendered] if namespace else rendered


def rendered_size(manifests: Sequence[Object], context: TemplateContext) -> int:
    """Return how many bytes the manifests have at most once a config is applied to them, without rendering them."""
    sizes = {name: len(orjson.dumps(value)) for name, value in context.variables.items()}
    size, containers, level = len(msgspec.json.encode(manifests)), 0, list[Any](manifests)
    while level:
        value = level.pop()
        if isinstance(value, str):
            closed, end, _ = value.rpartition("}}")
            size += sum(sizes.get(match[1], 0) for match in _VARIABLE.finditer(closed + end))
        elif isinstance(value, list):
            level += value
        elif isinstance(value, dict):
            containers += len(value.get("containers") or ())
            level += (*value, *value.values())
    return size + containers * len(msgspec.json.encode(context.config))


def workload_namespace(manifests: Iterable[Object], context: TemplateContext) -> str:
    """Return where the first Deployment runs, or else the first DaemonSet; empty when there is neither."""
    heads = [{name: obj[name] for name in _HEAD if name in obj} for obj in manifests]  # the rest need not be rendered
    rendered = render_manifests(heads, context)
    found = [(str(obj["kind"]), ObjectKey.of(obj).namespace) for obj in rendered if _workload(obj)]
    return next((namespace for kind in WORKLOADS for one, namespace in found if one == kind and namespace), "")


def substitute_variables(value: Any, variables: Mapping[str, str]) -> Any:
    """Return a value with `{{NAME}}` replaced in every text; unknown names become empty."""
    if isinstance(value, str):
        closed, end, rest = value.rpartition("}}")  # the search for an end begins at each brace, and so has to find one
        return _VARIABLE.sub(lambda match: variables.get(match[1], ""), closed + end) + rest if end else value
    if isinstance(value, list):
        return [substitute_variables(item, variables) for item in value]
    if isinstance(value, dict):
        return {
            substitute_variables(name, variables): substitute_variables(item, variables) for name, item in value.items()
        }
    return value


def with_namespace(obj: Object, namespace: str) -> Object:
    metadata, kind = obj.get("metadata") or {}, obj.get("kind")
    if kind == "Namespace":
        return {**obj, "metadata": {**metadata, "name": namespace}}
    if metadata.get("namespace"):
        obj = {**obj, "metadata": {**metadata, "namespace": namespace}}
    if kind in ("RoleBinding", "ClusterRoleBinding"):
        subjects = [{**subject, "namespace": namespace} for subject in obj.get("subjects") or ()]
        obj = {**obj, "subjects": subjects}
    return obj


def _workload(obj: Object) -> str:
    """Return the plural of a kind whose pods get the credentials; empty for every other kind."""
    group = str(obj.get("apiVersion") or "").partition("/")[0]
    return WORKLOADS.get(str(obj.get("kind")), "") if group == "apps" else ""


def _with_settings(obj: Object, context: TemplateContext) -> Object:
    workload = _workload(obj)
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    pod = template.get("spec")
    if not workload or not isinstance(pod, Mapping):
        return obj
    owner = f"{workload}:{ObjectKey.of(obj).name}"
    containers = [_with_container_settings(one, owner, context) for one in pod.get("containers") or ()]
    changed: Object = {**pod, "containers": containers}
    volumes = [volume for volume, _ in context.volumes if volume["name"] not in _names(pod.get("volumes"))]
    if volumes:
        changed["volumes"] = [*(pod.get("volumes") or ()), *volumes]
    if context.config.node_selector is not None:
        changed["nodeSelector"] = context.config.node_selector
    if context.config.tolerations is not None:
        changed["tolerations"] = context.config.tolerations
    return {**obj, "spec": {**spec, "template": {**template, "spec": changed}}}


def _with_container_settings(container: Object, owner: str, context: TemplateContext) -> Object:
    mounted = _names(container.get("volumeMounts"))
    mounts = [
        {"name": volume["name"], "mountPath": path}
        for volume, path in context.volumes
        if volume["name"] not in mounted  # a template may have mounted it itself
    ]
    changed: Object = {**container, "env": [*(container.get("env") or ()), *context.environment]}
    if mounts:
        changed["volumeMounts"] = [*(container.get("volumeMounts") or ()), *mounts]
    if container.get("image"):
        chosen = context.config.registries
        changed["image"] = rewrite_image(container["image"], context.mirrors if chosen is None else chosen)
    resources = context.config.resources_of(f"{owner}:{container.get('name')}")
    return changed if resources is None else {**changed, "resources": resources}


def _names(rows: Any) -> set[str]:
    return {str(row.get("name")) for row in rows or ()}


def _credential_volume(registration: Registration, addon: str) -> tuple[Object, str]:
    name, mount = "hub-kubeconfig", HUB_KUBECONFIG_MOUNT
    if registration.type == CUSTOM_SIGNER:
        signer = registration.signer.replace("/", "-")
        name, mount = f"cert-{signer.replace('.', '-')}", f"{MOUNTS}/{signer}"
    return {"name": name, "secret": {"secretName": registration.secret_name(addon)}}, mount


def _proxy_ca_name(addon: str) -> str:
    return f"{addon}-proxy-ca"
