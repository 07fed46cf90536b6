"""Schemas of the add-ons that run on managed clusters.

Open Cluster Management converts between v1alpha1 and v1beta1 with a webhook. Here both versions share one schema
with the fields of either, so that no webhook is needed and no field is pruned.
"""

from watchword.api import resources
from watchword.api.crds.schema import (
    AGE,
    DNS_LABEL,
    SIGNER_NAME,
    array,
    column,
    condition_column,
    conditions,
    definition,
    record,
    string,
    string_enum,
    version,
    whole,
)
from watchword.api.crds.work import DELETE_OPTION, EXECUTOR, MANIFEST_CONFIG, MANIFESTS
from watchword.api.meta import Object

_STRINGS = string("A name.")


def _group() -> Object:
    return string("The API group; empty for core.", default="")


def _subject(description: str) -> Object:
    fields = {
        "user": string("The user name."),
        "groups": array("The groups.", _STRINGS),
        "organizationUnits": array("The organisational units.", _STRINGS),
        "organizationUnit": array("The same, as v1alpha1 spells it.", _STRINGS),
    }
    return record(description, fields)


def _signer_name() -> Object:
    return string("The signer asked.", minLength=5, maxLength=571, pattern=SIGNER_NAME)


def _config(description: str) -> Object:
    fields = {
        "group": _group(),
        "resource": string("The resource, plural.", minLength=1),
        "namespace": string("The namespace."),
        "name": string("The name.", minLength=1),
    }
    return record(description, fields, required=("name", "resource"))


def _config_hash(description: str) -> Object:
    fields = {
        "namespace": string("The namespace."),
        "name": string("The name.", minLength=1),
        "specHash": string("A hash of its spec."),
    }
    return record(description, fields, required=("name",))


_CONFIG_REFERENCE = record(
    "A configuration and how far it has been applied.",
    {
        "group": _group(),
        "resource": string("The resource, plural.", minLength=1),
        "namespace": string("The namespace."),
        "name": string("The name."),
        "desiredConfig": _config_hash("What is wanted."),
        "lastAppliedConfig": _config_hash("What was applied last."),
        "lastKnownGoodConfig": _config_hash("What last worked."),
        "lastObservedGeneration": whole("The generation looked at.", bits=64),
    },
    required=("resource",),
)

_META = record(
    "What people see.", {"displayName": string("A name for people."), "description": string("A sentence for people.")}
)

_LEGACY_CONFIGURATION = record(
    "Where v1alpha1 kept its configuration.",
    {
        "crdName": string("The configuration's CRD."),
        "crName": string("The configuration's name."),
        "lastObservedGeneration": whole("The generation looked at.", bits=64),
    },
)

_SUPPORTED_CONFIG = record(
    "A kind of configuration the add-on understands.",
    {
        "group": _group(),
        "resource": string("The resource, plural.", minLength=1),
        "defaultConfig": record(
            "The one used when none is named.",
            {"namespace": string("The namespace."), "name": string("The name.", minLength=1)},
            required=("name",),
        ),
    },
    required=("resource",),
)

_REGISTRATION = record(
    "One credential the add-on needs.",
    {
        "type": string_enum("For the hub's API, or for something else.", "kubeClient", "customSigner"),
        "kubeClient": record(
            "A credential for the hub's API server.",
            {
                "driver": string_enum("How it is obtained; declared by the agent.", "csr", "token"),
                "subject": _subject("Who the add-on will be; declared by the agent, rebuilt and compared by the hub."),
            },
        ),
        "customSigner": record(
            "A client certificate by a signer of the add-on's own.",
            {"signerName": _signer_name(), "subject": _subject("Who the certificate names.")},
            required=("signerName",),
        ),
        "signerName": string("The signer, as v1alpha1 spells a registration."),
        "subject": _subject("The subject, as v1alpha1 spells a registration."),
    },
)

_RELATED = record(
    "An object that belongs to the add-on.",
    {
        "group": string("The API group."),
        "resource": string("The resource, plural."),
        "namespace": string("The namespace."),
        "name": string("The name."),
    },
    required=("group", "name", "resource"),
)

_ADDON_SPEC: dict[str, Object] = {
    "installNamespace": string("Where the agent is installed.", maxLength=63, pattern=DNS_LABEL),
    "configs": array("Configurations of this instance.", _config("One configuration.")),
}

_ADDON_STATUS: dict[str, Object] = {
    "conditions": conditions(),
    "namespace": string("Where the agent is installed, as its manager decided."),
    "registrations": array("The credentials the add-on needs.", _REGISTRATION),
    "kubeClientDriver": string_enum("The driver, as v1alpha1 spells it.", "csr", "token"),
    "healthCheck": record(
        "How health is judged.",
        {"mode": string_enum("By lease, or otherwise.", "Lease", "Customized", default="Lease")},
    ),
    "addOnMeta": _META,
    "addOnConfiguration": _LEGACY_CONFIGURATION,
    "configReferences": array("Configurations in force.", _CONFIG_REFERENCE),
    "supportedConfigs": array("Configurations understood.", _SUPPORTED_CONFIG, keys=("group", "resource")),
    "relatedObjects": array("Objects that belong to the add-on.", _RELATED),
}


def _addon_version(name: str, *, storage: bool) -> Object:
    return version(
        name,
        "An add-on enabled on one cluster, in that cluster's namespace.",
        {
            "spec": record("What is wanted.", _ADDON_SPEC),
            "status": record("What the add-on's manager, the hub and the agent report.", _ADDON_STATUS),
        },
        columns=(
            condition_column("Available", "Available"),
            condition_column("Degraded", "Degraded"),
            condition_column("Progressing", "Progressing"),
            AGE,
        ),
        storage=storage,
    )


MANAGED_CLUSTER_ADDON = definition(
    resources.MANAGED_CLUSTER_ADDONS,
    _addon_version("v1beta1", storage=True),
    _addon_version("v1alpha1", storage=False),
    short_names=("mca", "mcas"),
)


def _int_or_percent(description: str) -> Object:
    return {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "description": description,
        "pattern": "^((100|[0-9]{1,2})%|[0-9]+)$",
        "x-kubernetes-int-or-string": True,
    }


def _rollout(description: str, *, groups: bool, concurrency: bool) -> Object:
    fields: dict[str, Object] = {
        "maxFailures": {**_int_or_percent("How many may fail."), "default": 0},
        "minSuccessTime": string("How long a success must last.", default="0"),
        "progressDeadline": string(
            "How long to wait for progress.", default="None", pattern="^(([0-9])+[h|m|s])|None$"
        ),
    }
    if groups:
        group = record("One group.", {"groupIndex": whole("Its index."), "groupName": string("Its name.")})
        fields["mandatoryDecisionGroups"] = array("Groups that go first.", group)
    if concurrency:
        fields["maxConcurrency"] = _int_or_percent("How many at once.")
    return record(description, fields)


_PLACEMENT = record(
    "Clusters that get the add-on.",
    {
        "namespace": string("The placement's namespace.", minLength=1),
        "name": string("The placement's name.", minLength=1),
        "configs": array("Configurations for these clusters.", _config("One configuration.")),
        "rolloutStrategy": record(
            "How a change spreads.",
            {
                "type": string_enum(
                    "All at once or step by step.", "All", "Progressive", "ProgressivePerGroup", default="All"
                ),
                "all": _rollout("All at once.", groups=False, concurrency=False),
                "progressive": _rollout("Cluster by cluster.", groups=True, concurrency=True),
                "progressivePerGroup": _rollout("Group by group.", groups=True, concurrency=False),
            },
            default={"type": "All"},
        ),
    },
    required=("name", "namespace"),
)

_CLUSTER_SET = record("A set of clusters.", {"name": string("Its name.", minLength=1)}, required=("name",))

_CMA_SPEC: dict[str, Object] = {
    "addOnMeta": _META,
    "addOnConfiguration": _LEGACY_CONFIGURATION,
    "defaultConfigs": array("Default configurations.", _config("One configuration."), keys=("group", "resource")),
    "supportedConfigs": array("Configurations understood.", _SUPPORTED_CONFIG, keys=("group", "resource")),
    "installStrategy": record(
        "On which clusters the add-on is enabled.",
        {
            "type": string_enum(
                "By hand, by placement, or on every cluster of some sets.",
                "Manual",
                "Placements",
                "ClusterSets",
                default="Manual",
            ),
            "placements": array("Placements under Placements.", _PLACEMENT, keys=("namespace", "name")),
            "clusterSets": array("Sets under ClusterSets.", _CLUSTER_SET, keys=("name",)),
        },
        default={"type": "Manual"},
    ),
}

_DEFAULT_REFERENCES = array("Default configurations in force.", _CONFIG_REFERENCE)

_PROGRESSION = record(
    "How far the add-on has spread.",
    {
        "namespace": string("The placement's namespace.", minLength=1),
        "name": string("The placement's name.", minLength=1),
        "configReferences": array("Configurations in force.", _CONFIG_REFERENCE),
        "conditions": conditions(),
    },
    required=("name", "namespace"),
)

_CMA_STATUS: dict[str, Object] = {
    "defaultConfigReferences": _DEFAULT_REFERENCES,
    "defaultconfigReferences": _DEFAULT_REFERENCES,
    "installProgressions": array("How far the add-on has spread.", _PROGRESSION),
    "conditions": conditions(),
}


def _cma_version(name: str, *, storage: bool) -> Object:
    return version(
        name,
        "An add-on that this hub knows.",
        {"spec": record("What it is.", _CMA_SPEC), "status": record("What the hub reports.", _CMA_STATUS)},
        columns=(column("Display Name", ".spec.addOnMeta.displayName"), AGE),
        storage=storage,
    )


CLUSTER_MANAGEMENT_ADDON = definition(
    resources.CLUSTER_MANAGEMENT_ADDONS,
    _cma_version("v1beta1", storage=True),
    _cma_version("v1alpha1", storage=False),
    short_names=("cma", "cmas"),
)

_ROLE_REF = record(
    "The role granted.",
    {"apiGroup": string("Its API group."), "kind": string("Role or ClusterRole."), "name": string("Its name.")},
    required=("apiGroup", "kind", "name"),
)

_HUB_PERMISSION = record(
    "A right on the hub.",
    {
        "type": string_enum("Where it holds.", "CurrentCluster", "SingleNamespace"),
        "currentCluster": record(
            "In the cluster's own namespace.",
            {"clusterRoleName": string("The ClusterRole granted.")},
            required=("clusterRoleName",),
        ),
        "singleNamespace": record(
            "In one namespace.",
            {"namespace": string("The namespace."), "roleRef": _ROLE_REF},
            required=("namespace", "roleRef"),
        ),
    },
    required=("type",),
)

_TEMPLATE_REGISTRATION = record(
    "One credential the add-on needs.",
    {
        "type": string_enum("For the hub's API, or for something else.", "KubeClient", "CustomSigner"),
        "kubeClient": record(
            "A credential for the hub's API server.",
            {"hubPermissions": array("The rights it carries.", _HUB_PERMISSION)},
        ),
        "customSigner": record(
            "A client certificate by a signer of the add-on's own.",
            {
                "signerName": _signer_name(),
                "subject": _subject("Who the certificate names."),
                "signingCA": record(
                    "The Secret with the signing certificate and key.",
                    {
                        "namespace": string("Its namespace: the hub's, or one that its administrator lists."),
                        "name": string("Its name."),
                    },
                    required=("name",),
                ),
            },
            required=("signerName", "signingCA"),
        ),
    },
    required=("type",),
)


def _template_version(name: str, *, storage: bool) -> Object:
    return version(
        name,
        "An add-on described by manifests alone.",
        {
            "spec": record(
                "What it consists of.",
                {
                    "addonName": string("The add-on's name."),
                    "agentSpec": record(
                        "The work that installs it.",
                        {
                            "workload": record("What to apply.", {"manifests": MANIFESTS}),
                            "deleteOption": DELETE_OPTION,
                            "manifestConfigs": array("How single manifests are treated.", MANIFEST_CONFIG),
                            "executor": EXECUTOR,
                        },
                    ),
                    "registration": array("The credentials it needs.", _TEMPLATE_REGISTRATION),
                },
                required=("addonName", "agentSpec"),
            )
        },
        columns=(column("Addon Name", ".spec.addonName"), AGE),
        status=False,
        storage=storage,
    )


ADDON_TEMPLATE = definition(
    resources.ADDON_TEMPLATES,
    _template_version("v1alpha1", storage=True),
    _template_version("v1beta1", storage=False),
)
