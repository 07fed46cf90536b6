"""Settings of an installation as a values file gives them, the same for `manifests` and the Helm chart."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, field

from watchword import __version__
from watchword.api.meta import Manifest, ObjectKey, Resource
from watchword.api.names import AGENT_NAMESPACE, HUB_NAMESPACE, REGISTRY, REPOSITORY, Annotation
from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
from watchword.operator.bundles import BundleOptions, operator_bundle
from watchword.operator.cluster_manager import CLUSTER_MANAGER
from watchword.operator.pull_secret_manifests import PullSecretBundleOptions, pull_secret_bundle
from watchword.operator.rendering import PodSettings, WorkloadAccess

Values = Mapping[str, Any]
SWITCHES = ("networkPolicy", "podMonitor", "serviceMonitor", "podDisruptionBudget")
SECTIONS = ("image", "nodePlacement", *SWITCHES, "operator", "hub", "agent", "pullSecrets")


class ValuesError(ValueError):
    """The values are not those of an installation; the message names the field."""


class DeployedSettings(Struct, frozen=True):
    """What a ClusterManager or a Klusterlet says; what is empty is left to the operator."""

    annotations: Values = field(default_factory=dict)
    spec: Values = field(default_factory=dict)

    def manifest(self, resource: Resource, name: str, **named: str) -> Manifest:
        metadata = {"metadata": {"annotations": self.annotations}} if self.annotations else {}
        return resource, resource.manifest(ObjectKey.cluster(name), **metadata, spec={**named, **self.spec})


class AgentNames(Struct, frozen=True):
    """How the agent of a cluster is called, and where it runs."""

    cluster: str = ""
    klusterlet: str = "klusterlet"
    namespace: str = AGENT_NAMESPACE


class Installation(Struct, frozen=True):
    """Everything that differs from one installation to another."""

    image: str
    access: WorkloadAccess = field(default_factory=WorkloadAccess)
    operator: PodSettings = field(default_factory=PodSettings)
    hub: DeployedSettings = field(default_factory=DeployedSettings)
    agent: DeployedSettings = field(default_factory=DeployedSettings)
    agent_names: AgentNames = field(default_factory=AgentNames)
    pull_secrets: PullSecretBundleOptions = field(default_factory=PullSecretBundleOptions)

    def hub_rows(self) -> list[Manifest]:
        options = BundleOptions(self.image, for_agent=False, pods=self.operator, access=self.access)
        controllers = ObjectKey(HUB_NAMESPACE, f"{CLUSTER_MANAGER}-controller")
        manager = self.hub.manifest(CLUSTER_MANAGERS, CLUSTER_MANAGER, imagePullSpec=self.image)
        return [*operator_bundle(options), *self.access.rows(controllers), manager]

    def agent_rows(self) -> list[Manifest]:
        """Return the operator and its Klusterlet; the bootstrap Secret is created by the joining user."""
        names = self.agent_names
        options = BundleOptions(self.image, names.namespace, for_hub=False, pods=self.operator, access=self.access)
        spec = {"clusterName": names.cluster, "namespace": names.namespace, "imagePullSpec": self.image}
        agent = ObjectKey(names.namespace, f"{names.klusterlet}-agent")
        klusterlet = self.agent.manifest(KLUSTERLETS, names.klusterlet, **spec)
        return [*operator_bundle(options), *self.access.rows(agent), klusterlet]

    def pull_secret_rows(self) -> list[Manifest]:
        return pull_secret_bundle(self.pull_secrets)


FLAGS = {
    "agent": {"cluster_name": "clusterName", "klusterlet_name": "klusterletName", "namespace": "namespace"},
    "pullSecrets": {"registries": "registries", "audience": "audience", "only_used": "onlyUsed"},
}
"""By section of the values: which flag of the command line stands for which value."""


def read_installation(values: Any, flags: Values = MappingProxyType({})) -> Installation:
    """Return the settings of a values file, with defaults for the rest; `ValuesError` for what they cannot be.

    Flags of a command line take the place of what they name; empty ones name nothing.
    """
    values = values or {}
    validate_values(values)
    for section, names in FLAGS.items():
        given = {name: flags[flag] for flag, name in names.items() if flags.get(flag)}
        values = {**values, section: {**(values.get(section) or {}), **given}}
    image = flags.get("image") or image_of(values.get("image") or {})
    agent, secrets = values["agent"], values["pullSecrets"]
    access = WorkloadAccess(*(bool((values.get(name) or {}).get("enabled")) for name in SWITCHES))
    return Installation(
        image,
        access,
        operator=_pods(values, "operator", replicas=1),
        hub=_deployed(values, "hub"),
        agent=_deployed(values, "agent"),
        agent_names=AgentNames(
            str(agent.get("clusterName") or ""),
            str(agent.get("klusterletName") or "klusterlet"),
            str(agent.get("namespace") or AGENT_NAMESPACE),
        ),
        pull_secrets=PullSecretBundleOptions(
            image,
            tuple(secrets.get("registries") or ()),
            str(secrets.get("audience") or ""),
            bool(secrets.get("onlyUsed")),
            pods=_pods(values, "pullSecrets", replicas=2),
            access=access,
        ),
    )


def validate_values(values: Any) -> None:
    """Raise `ValuesError` unless these are sections with the names that the chart has."""
    if not isinstance(values, Mapping):
        raise ValuesError("the values are no mapping: see deploy/chart/values.yaml for all of them")
    unknown = sorted(set(values) - {*SECTIONS, "imagePullSecrets"})
    if unknown:
        raise ValuesError(f"there is no value {unknown[0]}: deploy/chart/values.yaml lists all")
    wrong = [name for name in SECTIONS if not isinstance(values.get(name) or {}, Mapping)]
    if wrong:
        raise ValuesError(f"{wrong[0]} is no mapping: see deploy/chart/values.yaml")
    references = values.get("imagePullSecrets") or []
    if not isinstance(references, list) or any(
        not isinstance(row, Mapping) or not row.get("name") for row in references
    ):
        raise ValuesError("imagePullSecrets is no list of names: write it as [{name: SECRET}]")


def image_of(values: Values) -> str:
    """Return the full name of the image; a digest is stronger than a tag."""
    name = f"{values.get('registry') or REGISTRY}/{values.get('repository') or REPOSITORY}"
    digest = values.get("digest")
    return f"{name}@{digest}" if digest else f"{name}:{values.get('tag') or __version__}"


def _pods(values: Values, section: str, *, replicas: int) -> PodSettings:
    own: Values = values.get(section) or {}
    placement: Values = values.get("nodePlacement") or {}
    return PodSettings(
        replicas=own.get("replicas") or replicas,
        resources=own.get("resources") or {},
        node_selector=placement.get("nodeSelector") or {},
        tolerations=placement.get("tolerations") or (),
        pull_secrets=values.get("imagePullSecrets") or (),
    )


def _deployed(values: Values, section: str) -> DeployedSettings:
    own: Values = values.get(section) or {}
    names = ",".join(str(row["name"]) for row in values.get("imagePullSecrets") or ())
    replicas = own.get("replicas") or 1
    annotations = {
        **({Annotation.IMAGE_PULL_SECRETS: names} if names else {}),
        **({Annotation.REPLICAS: str(replicas)} if replicas != 1 else {}),
    }
    resources = own.get("resources")
    spec = {
        "nodePlacement": values.get("nodePlacement"),
        "resourceRequirement": {"type": "ResourceRequirement", "resourceRequirements": resources} if resources else {},
        **{name: own.get(name) for name in SPEC_FIELDS},
    }
    return DeployedSettings(annotations, {name: value for name, value in spec.items() if value})


SPEC_FIELDS = ("registrationConfiguration", "workConfiguration", "addOnManagerConfiguration", "externalServerURLs")
"""Fields of the values that a ClusterManager or a Klusterlet takes as they are: drivers and feature gates."""
