"""Names of bootstrap tokens and cluster-info on the wire: those of Kubernetes, and the few we add."""

import re

from watchword.api.meta import ObjectKey

TOKEN_SECRET_TYPE = "bootstrap.kubernetes.io/token"  # noqa: S105 - the name of a type
TOKEN_SECRET_NAMESPACE = "kube-system"  # noqa: S105 - the name of a namespace
TOKEN_SECRET_PREFIX = "bootstrap-token-"  # noqa: S105 - the beginning of a name

TOKEN_PATTERN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})", re.ASCII)
TOKEN_ID_PATTERN = re.compile(r"[a-z0-9]{6}", re.ASCII)
GROUP_PATTERN = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]", re.ASCII)

KEY_TOKEN_ID = "token-id"  # noqa: S105 - the name of a field
KEY_TOKEN_SECRET = "token-secret"  # noqa: S105 - the name of a field
KEY_EXPIRATION = "expiration"
KEY_DESCRIPTION = "description"
KEY_EXTRA_GROUPS = "auth-extra-groups"  # what Kubernetes reads
KEY_GROUPS = "auth-groups"  # the name of the same list in the discovery design
KEY_USAGE_PREFIX = "usage-bootstrap-"

USER_PREFIX = "system:bootstrap:"
BOOTSTRAPPERS_GROUP = "system:bootstrappers"
MANAGED_CLUSTER_GROUP = f"{BOOTSTRAPPERS_GROUP}:managedcluster"
NODE_GROUP = f"{BOOTSTRAPPERS_GROUP}:kubeadm:default-node-token"

KUBE_PUBLIC = "kube-public"
CLUSTER_INFO = ObjectKey(KUBE_PUBLIC, "cluster-info")
KUBECONFIG_KEY = "kubeconfig"
SIGNATURE_PREFIX = "jws-kubeconfig-"

ANNOTATION_ALLOWED_CLUSTERS = "watchword.dev/allowed-clusters"
ANNOTATION_MAXIMUM_USES = "watchword.dev/max-uses"
ANNOTATION_USED_BY = "watchword.dev/used-by"
ANNOTATION_SIGNING_REFUSED = "watchword.dev/signing-refused"
EXTENSION_ENDPOINTS = "watchword.dev/endpoints"
"""Name of the extension on the unnamed cluster of a ClusterInfo that lists every address of the cluster."""


def token_secret_key(token_id: str) -> ObjectKey:
    return ObjectKey(TOKEN_SECRET_NAMESPACE, TOKEN_SECRET_PREFIX + token_id)


def bootstrap_user(token_id: str) -> str:
    return USER_PREFIX + token_id
