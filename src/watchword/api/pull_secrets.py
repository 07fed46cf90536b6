"""Names of image pull secrets on the wire: OpenShift's own, and the few we add."""

from watchword.api.meta import ObjectKey
from watchword.api.names import PULL_SECRETS_NAMESPACE

DOCKERCFG_TYPE = "kubernetes.io/dockercfg"
DOCKERCFG_KEY = ".dockercfg"
SERVICE_ACCOUNT_TOKEN_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - the name of a type

ANNOTATION_PULL_SECRET = "openshift.io/internal-registry-pull-secret-ref"  # noqa: S105 - an annotation key
"""On a ServiceAccount: the name of its managed image pull secret."""

ANNOTATION_ACCOUNT = "openshift.io/internal-registry-auth-token.service-account"
ANNOTATION_ACCOUNT_MISSPELT = "openshift.io/internal-registry-auth-token.service-acount"
"""On an image pull secret: its ServiceAccount, as OpenShift spells the key and as the design does. Both are written."""

ANNOTATION_BINDING = "openshift.io/internal-registry-auth-token.binding"
BOUND, LEGACY = "bound", "legacy"

LEGACY_TOKEN = "openshift.io/legacy-token"  # noqa: S105 - a label and a finalizer
"""The label of a legacy token Secret, and the finalizer of a legacy image pull secret."""

ANNOTATION_TOKEN_SECRET = "openshift.io/token-secret.name"  # noqa: S105 - an annotation key
ANNOTATION_CREATED_BY = "kubernetes.io/created-by"
CREATED_BY_LEGACY_CONTROLLER = "openshift.io/create-dockercfg-secrets"
ANNOTATION_ACCOUNT_NAME = "kubernetes.io/service-account.name"
ANNOTATION_ACCOUNT_UID = "kubernetes.io/service-account.uid"

SIGNING_KEY_SECRET = ObjectKey("openshift-kube-apiserver", "bound-service-account-signing-key")
SIGNING_KEY_FIELD = "service-account.pub"
REGISTRY_SERVICES = (ObjectKey("default", "docker-registry"), ObjectKey("openshift-image-registry", "image-registry"))

USERNAME = "<token>"
"""The user name of every pull secret: registries look only at the password, which is the token."""

LABEL_PULL_SECRETS = "watchword.dev/pull-secrets"
DISABLED = "disabled"
"""The value that takes a ServiceAccount, or every ServiceAccount of a Namespace, out of management."""

CONFIGURATION = ObjectKey(PULL_SECRETS_NAMESPACE, "pull-secrets")
"""The ConfigMap that says which registries, which audience, and whether anything is managed at all."""
