"""What an administrator applies to run pull secrets and the token service of a registry."""

from collections.abc import Sequence

from msgspec import Struct, field

from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.names import IMAGE, PULL_SECRETS_NAMESPACE, REGISTRY_AUTH_NAMESPACE
from watchword.api.pull_secrets import CONFIGURATION, REGISTRY_SERVICES
from watchword.api.rbac import RbacRule, rules_of
from watchword.api.resources import CLUSTER_ROLES, CONFIG_MAPS, SECRETS, SERVICES
from watchword.operator import rendering
from watchword.operator.rbac import READ

PULL_SECRETS = ObjectKey(PULL_SECRETS_NAMESPACE, "watchword-pull-secrets")
REGISTRY_AUTH = ObjectKey(REGISTRY_AUTH_NAMESPACE, "watchword-registry-auth")
PULL_SECRETS_ROLE = "watchword:pull-secrets"
PULL_SECRETS_OWN_ROLE = "watchword:pull-secrets-own"
REGISTRY_AUTH_ROLE = "watchword:registry-token-service"  # 0.1.0 bound "watchword:registry-auth" to another account
SIGNING_SECRET = "watchword-registry-auth"  # noqa: S105 - the name of a Secret
TOKEN_PORT = 5001

PULL_SECRETS_RIGHTS = (
    RbacRule("lists the pull secret of each account", "", ("serviceaccounts",), (*READ, "patch")),
    RbacRule("asks for the token in each pull secret", "", ("serviceaccounts/token",), ("create",)),
    RbacRule(
        "writes pull secrets; RBAC cannot grant Secrets by type, so the watch selects the type",
        "",
        ("secrets",),
        (*READ, "create", "patch", "delete"),
    ),
    RbacRule("sees which namespaces opted out", "", ("namespaces",), READ),
    RbacRule("finds the integrated registry", "", ("services",), READ, tuple(key.name for key in REGISTRY_SERVICES)),
    RbacRule("tells what happens to pull secrets", "events.k8s.io", ("events",), ("create", "patch")),
)
"""What the controllers of pull secrets may do everywhere."""

ONLY_USED_RIGHTS = (RbacRule("sees which accounts a pod uses, with --only-used", "", ("pods",), READ),)

PULL_SECRETS_OWN_RIGHTS = (
    RbacRule("follows its configuration", "", ("configmaps",), READ, (CONFIGURATION.name,)),
    RbacRule("replicas elect one", "coordination.k8s.io", ("leases",), ("get", "create", "update")),
)
"""What they may do in their own namespace."""

REGISTRY_AUTH_RIGHTS = (
    RbacRule("asks whose token it was given", "authentication.k8s.io", ("tokenreviews",), ("create",)),
    RbacRule("asks what that account may pull", "authorization.k8s.io", ("subjectaccessreviews",), ("create",)),
)
"""What the token service may do: ask, and read nothing."""


class PullSecretBundleOptions(Struct, frozen=True):
    """What differs from one installation to another."""

    image: str = IMAGE
    registries: tuple[str, ...] = ()
    audience: str = ""
    only_used: bool = False
    pods: rendering.PodSettings = field(default_factory=lambda: rendering.PodSettings(replicas=2))
    access: rendering.WorkloadAccess = field(default_factory=rendering.WorkloadAccess)


def pull_secret_bundle(options: PullSecretBundleOptions) -> list[Manifest]:
    rights = (*PULL_SECRETS_RIGHTS, *(ONLY_USED_RIGHTS if options.only_used else ()))
    data = {"enabled": "true", "registries": "\n".join(options.registries), "audience": options.audience}
    return [
        rendering.namespace(PULL_SECRETS.namespace),
        rendering.service_account(PULL_SECRETS.name, PULL_SECRETS.namespace),
        *rendering.cluster_role_with_binding(PULL_SECRETS_ROLE, rules_of(rights), PULL_SECRETS),
        *rendering.role_with_binding(
            ObjectKey(PULL_SECRETS.namespace, PULL_SECRETS_OWN_ROLE), rules_of(PULL_SECRETS_OWN_RIGHTS), PULL_SECRETS
        ),
        (CONFIG_MAPS, CONFIG_MAPS.manifest(CONFIGURATION, data={name: text for name, text in data.items() if text})),
        rendering.deployment(
            rendering.Workload(
                key=PULL_SECRETS,
                image=options.image,
                arguments=["pull-secrets", *(["--only-used"] if options.only_used else [])],
                replicas=options.pods.replicas,
                pod=options.pods.fields,
                resources=options.pods.resources or {"requests": {"cpu": "10m", "memory": "64Mi"}},
            )
        ),
        *options.access.rows(PULL_SECRETS),
    ]


class RegistryAuthBundleOptions(Struct, frozen=True):
    """What differs from one registry to another."""

    service: str
    audience: str
    image: str = IMAGE


def registry_auth_bundle(options: RegistryAuthBundleOptions) -> list[Manifest]:
    """Return the token service, its Service, and the roles that let accounts pull and push.

    The signing key is not among them, so that all can be applied again: registries trust its certificate.
    """
    ports = [{"name": "token", "port": TOKEN_PORT, "targetPort": TOKEN_PORT}]
    folder = "/etc/registry-auth"
    workload = rendering.Workload(
        key=REGISTRY_AUTH,
        image=options.image,
        arguments=[
            "registry-auth",
            f"--service={options.service}",
            "--issuer=watchword",
            f"--audience={options.audience}",
            f"--signing-key={folder}/tls.key",
            f"--signing-certificate={folder}/tls.crt",
            f"--serve=$(POD_IP):{TOKEN_PORT}",
            "--insecure-http",  # TLS ends at the Ingress in front of the Service
        ],
        replicas=2,
        secrets={SIGNING_SECRET: folder},
        resources={"requests": {"cpu": "5m", "memory": "48Mi"}},
    )
    return [
        rendering.namespace(REGISTRY_AUTH.namespace),
        rendering.service_account(REGISTRY_AUTH.name, REGISTRY_AUTH.namespace),
        *rendering.cluster_role_with_binding(REGISTRY_AUTH_ROLE, rules_of(REGISTRY_AUTH_RIGHTS), REGISTRY_AUTH),
        _image_role("system:image-puller", ["get"]),
        _image_role("system:image-pusher", ["get", "update"]),
        rendering.labelled(SERVICES, REGISTRY_AUTH, spec={"selector": {"app": REGISTRY_AUTH.name}, "ports": ports}),
        rendering.deployment(workload),
    ]


def _image_role(name: str, verbs: Sequence[str]) -> Manifest:
    rule = {"apiGroups": ["image.openshift.io"], "resources": ["imagestreams/layers"], "verbs": list(verbs)}
    return CLUSTER_ROLES, CLUSTER_ROLES.manifest(ObjectKey.cluster(name), rules=[rule])


def signing_secret(key: bytes, certificate: bytes) -> Object:
    """Return the Secret with the key that signs registry tokens; the server refuses to change it."""
    data = {"tls.key": key.decode(), "tls.crt": certificate.decode()}
    where = ObjectKey(REGISTRY_AUTH.namespace, SIGNING_SECRET)
    return SECRETS.manifest(where, type="kubernetes.io/tls", stringData=data, immutable=True)
