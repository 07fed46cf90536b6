"""Schemas of managed service accounts, in the group of the design and in that of Open Cluster Management."""

from watchword.api import resources
from watchword.api.crds import schema
from watchword.api.meta import Object

DEFAULT_VALIDITY = "24h0m0s"
OCM_DEFAULT_VALIDITY = "8640h0m0s"
GO_DURATION = r"^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$"
MOST_AUDIENCES, LONGEST_AUDIENCE = 16, 253
LONGEST_NAME = 189  # the Secret in a cluster-set namespace is named CLUSTER.NAME, of at most 253 characters

_VALIDITY_RULES = [
    {
        "rule": "duration(self) >= duration('10m')",
        "message": "validity is below 10m, the shortest life that Kubernetes gives a token: ask for 10m or more",
    },
    {
        "rule": "duration(self) <= duration('1193046h')",
        "message": "validity is above 1193046h, the longest life that can be requested: ask for less",
    },
]
_NAME_RULE = {
    "rule": f"self.metadata.name.size() <= {LONGEST_NAME}",
    "message": f"the name is longer than {LONGEST_NAME} characters: choose a shorter one",
}


def _rotation(default: str, *, strict: bool) -> Object:
    validity = schema.string("How long a token is requested for, as a Go duration: 24h, 90m.", default=default)
    if strict:
        validity |= {"pattern": GO_DURATION, "maxLength": 64, "x-kubernetes-validations": _VALIDITY_RULES}
    enabled = {**schema.boolean("Whether the token is renewed before it expires."), "default": True}
    return schema.record("How the token is rotated.", {"enabled": enabled, "validity": validity})


def _spec(default: str, *, strict: bool) -> Object:
    audience = schema.string("An audience.", minLength=1, maxLength=LONGEST_AUDIENCE)
    fields = {
        "audiences": schema.array(
            "For whom the token is valid; nothing: for the API server of the cluster.",
            audience,
            maxItems=MOST_AUDIENCES,
        ),
        "rotation": _rotation(default, strict=strict),
        "ttlSecondsAfterCreation": schema.whole(
            "After how many seconds the account is deleted; nothing: never.", minimum=0, exclusiveMinimum=True
        ),
    }
    if strict:
        rotation = fields["rotation"]
        fields["rotation"] = {**rotation, "default": {"enabled": True, "validity": default}}
        return schema.record("What the account is.", fields, default={})
    return schema.record("What the account is.", fields, required=("rotation",))


def _status() -> Object:
    secret = schema.record(
        "The Secret beside this object.",
        {
            "name": schema.string("Its name."),
            "lastRefreshTimestamp": schema.date_time("When the token was last written."),
        },
        required=("lastRefreshTimestamp", "name"),
    )
    clusters = schema.record(
        "Of an account in a cluster-set namespace: on how many clusters it is.",
        {"total": schema.whole("Clusters of the set."), "present": schema.whole("Clusters that have it.")},
    )
    return schema.record(
        "What is known of the account.",
        {
            "conditions": schema.conditions(),
            "expirationTimestamp": schema.date_time("When the token expires."),
            "nextRenewalTimestamp": schema.date_time("When the token is renewed."),
            "tokenSecretRef": secret,
            "clusters": clusters,
        },
    )


_COLUMNS = (
    schema.condition_column("Present", "AllServiceAccountPresent"),
    schema.condition_column("Reported", "TokenReported"),
    schema.column("Clusters", ".status.clusters.present", "integer"),
    schema.column("Expires", ".status.expirationTimestamp", "string"),  # kubectl shows a date as an age
    schema.AGE,
)


def _version(name: str, default: str, *, strict: bool = False, storage: bool = True) -> Object:
    return schema.version(
        name,
        "An identity on managed clusters, whose token is reported to the hub.",
        {"spec": _spec(default, strict=strict), "status": _status()},
        columns=_COLUMNS,
        storage=storage,
        **({"x-kubernetes-validations": [_NAME_RULE]} if strict else {}),
    )


MANAGED_SERVICE_ACCOUNT = schema.definition(
    resources.MANAGED_SERVICE_ACCOUNTS, _version("v1alpha1", DEFAULT_VALIDITY, strict=True), short_names=("msa",)
)
OCM_MANAGED_SERVICE_ACCOUNT = schema.definition(
    resources.OCM_MANAGED_SERVICE_ACCOUNTS,
    {
        **_version("v1alpha1", OCM_DEFAULT_VALIDITY, storage=False),
        "deprecated": True,
        "deprecationWarning": "v1alpha1 is deprecated: use v1beta1",
    },
    _version("v1beta1", OCM_DEFAULT_VALIDITY),
)

ACCOUNT_CRDS = (MANAGED_SERVICE_ACCOUNT, OCM_MANAGED_SERVICE_ACCOUNT)
"""What the hub of an add-on that manages service accounts needs."""
