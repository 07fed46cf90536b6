"""Schemas of managed service accounts, in the group of the design and in that of Open Cluster Management."""

from watchword.api import resources
from watchword.api.crds import schema

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


_STATUS = """\
status: What is known of the account.
  conditions @conditions
  expirationTimestamp dateTime: When the token expires.
  nextRenewalTimestamp dateTime: When the token is renewed.
  tokenSecretRef: The Secret beside this object.
    name*: Its name.
    lastRefreshTimestamp* dateTime: When the token was last written.
  clusters: Of an account in a cluster-set namespace: on how many clusters it is.
    total int32: Clusters of the set.
    present int32: Clusters that have it.
"""
_PARTS = schema.fields(f"""
audiences list maxItems={MOST_AUDIENCES}: For whom the token is valid; nothing: for the API server of the cluster.
  - minLength=1 maxLength={LONGEST_AUDIENCE}: An audience.
enabled boolean default=true: Whether the token is renewed before it expires.
validity: How long a token is requested for, as a Go duration: 24h, 90m.
ttl int32 exclusiveMinimum=true: After how many seconds the account is deleted; nothing: never.
""")
_COLUMNS = (
    schema.condition_column("Present", "AllServiceAccountPresent"),
    schema.condition_column("Reported", "TokenReported"),
    schema.column("Clusters", ".status.clusters.present", "integer"),
    schema.column("Expires", ".status.expirationTimestamp", "string"),  # kubectl shows a date as an age
    schema.AGE,
)

_DESCRIPTION = "An identity on managed clusters, whose token is reported to the hub."
_CHECKED = {"pattern": GO_DURATION, "maxLength": 64, "x-kubernetes-validations": _VALIDITY_RULES}
MANAGED_SERVICE_ACCOUNT = schema.definition(
    resources.MANAGED_SERVICE_ACCOUNTS,
    _DESCRIPTION,
    f"""
spec default={{}}: What the account is.
  audiences @audiences
  rotation default={{"enabled":true,"validity":"{DEFAULT_VALIDITY}"}}: How the token is rotated.
    enabled @enabled
    validity @checkedValidity default="{DEFAULT_VALIDITY}"
  ttlSecondsAfterCreation @ttl
{_STATUS}""",
    parts={**_PARTS, "checkedValidity": {**_PARTS["validity"], **_CHECKED}},
    columns=_COLUMNS,
    short_names=("msa",),
    rules=(_NAME_RULE,),
)
OCM_MANAGED_SERVICE_ACCOUNT = schema.definition(
    resources.OCM_MANAGED_SERVICE_ACCOUNTS,
    _DESCRIPTION,
    f"""
spec: What the account is.
  audiences @audiences
  rotation*: How the token is rotated.
    enabled @enabled
    validity @validity default="{OCM_DEFAULT_VALIDITY}"
  ttlSecondsAfterCreation @ttl
{_STATUS}""",
    parts=_PARTS,
    columns=_COLUMNS,
    also=("v1alpha1",),
)
_V1BETA1, _V1ALPHA1 = OCM_MANAGED_SERVICE_ACCOUNT["spec"]["versions"]
_DEPRECATION = {"deprecated": True, "deprecationWarning": "v1alpha1 is deprecated: use v1beta1"}
OCM_MANAGED_SERVICE_ACCOUNT["spec"]["versions"] = [{**_V1ALPHA1, **_DEPRECATION}, _V1BETA1]

ACCOUNT_CRDS = (MANAGED_SERVICE_ACCOUNT, OCM_MANAGED_SERVICE_ACCOUNT)
"""What the hub of an add-on that manages service accounts needs."""
