"""Settings of an installation as a values file gives them, the same for `manifests` and the Helm chart."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from watchword import __version__
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import AGENT_NAMESPACE, REGISTRY, REPOSITORY, Annotation
from watchword.api.resources import CLUSTER_MANAGERS, KLUSTERLETS
from watchword.operator.bundles import BundleOptions, agent_bundle, hub_bundle
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
        manager = CLUSTER_MANAGERS.manifest(
            ObjectKey.cluster("cluster-manager"), **_metadata(self.hub), spec=_spec(self.hub, imagePullSpec=self.image)
        )
        return hub_bundle(manager, BundleOptions(self.image, for_agent=False, pods=self.operator, access=self.access))

    def agent_rows(self) -> list[Manifest]:
        names = self.agent_names
        spec = _spec(self.agent, clusterName=names.cluster, namespace=names.namespace, imagePullSpec=self.image)
        klusterlet = KLUSTERLETS.manifest(ObjectKey.cluster(names.klusterlet), **_metadata(self.agent), spec=spec)
        options = BundleOptions(self.image, names.namespace, for_hub=False, pods=self.operator, access=self.access)
        return agent_bundle(klusterlet, options)

    def pull_secret_rows(self) -> list[Manifest]:
        return pull_secret_bundle(self.pull_secrets)


def read_installation(values: Any) -> Installation:
    """Return the settings of a values file, with defaults for the rest; `ValuesError` for what they cannot be."""
    values = values or {}
    validate_values(values)
    image = image_of(values.get("image") or {})
    access = WorkloadAccess(*(_switch(values, name) for name in SWITCHES))
    return Installation(
        image,
        access,
        operator=_pods(values, values.get("operator") or {}, replicas=1),
        hub=_deployed(values, values.get("hub") or {}),
        agent=_deployed(values, values.get("agent") or {}),
        agent_names=_agent_names(values.get("agent") or {}),
        pull_secrets=_pull_secrets(values, image, access),
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


def override_installation(found: Installation, flags: Values) -> Installation:
    """Return the settings with the flags of a command line in the place of what they name; empty ones name nothing."""
    image = flags.get("image") or found.image
    names, secrets = found.agent_names, found.pull_secrets
    return replace(
        found,
        image=image,
        agent_names=AgentNames(
            flags.get("cluster_name") or names.cluster,
            flags.get("klusterlet_name") or names.klusterlet,
            flags.get("namespace") or names.namespace,
        ),
        pull_secrets=replace(
            secrets,
            image=image,
            registries=flags.get("registries") or secrets.registries,
            audience=flags.get("audience") or secrets.audience,
            only_used=flags.get("only_used") or secrets.only_used,
        ),
    )


def image_of(values: Values) -> str:
    """Return the full name of the image; a digest is stronger than a tag."""
    name = f"{values.get('registry') or REGISTRY}/{values.get('repository') or REPOSITORY}"
    digest = values.get("digest")
    return f"{name}@{digest}" if digest else f"{name}:{values.get('tag') or __version__}"


def _metadata(settings: DeployedSettings) -> dict[str, Any]:
    return {"metadata": {"annotations": settings.annotations}} if settings.annotations else {}


def _spec(settings: DeployedSettings, **named: str) -> Object:
    return {**named, **settings.spec}


def _switch(values: Values, name: str) -> bool:
    return bool((values.get(name) or {}).get("enabled"))


def _pods(values: Values, own: Values, *, replicas: int) -> PodSettings:
    placement: Values = values.get("nodePlacement") or {}
    return PodSettings(
        replicas=own.get("replicas") or replicas,
        resources=own.get("resources") or {},
        node_selector=placement.get("nodeSelector") or {},
        tolerations=placement.get("tolerations") or (),
        pull_secrets=values.get("imagePullSecrets") or (),
    )


def _deployed(values: Values, own: Values) -> DeployedSettings:
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


def _agent_names(own: Values) -> AgentNames:
    return AgentNames(
        str(own.get("clusterName") or ""),
        str(own.get("klusterletName") or "klusterlet"),
        str(own.get("namespace") or AGENT_NAMESPACE),
    )


def _pull_secrets(values: Values, image: str, access: WorkloadAccess) -> PullSecretBundleOptions:
    own: Values = values.get("pullSecrets") or {}
    return PullSecretBundleOptions(
        image,
        tuple(own.get("registries") or ()),
        str(own.get("audience") or ""),
        bool(own.get("onlyUsed")),
        pods=_pods(values, own, replicas=2),
        access=access,
    )
