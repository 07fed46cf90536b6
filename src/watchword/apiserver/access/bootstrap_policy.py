"""The namespaces, roles, bindings and the Service that every control plane starts with, as data."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from msgspec import Struct, field

from watchword.api import resources
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of
from watchword.apiserver.access.rbac import RbacIndex
from watchword.apiserver.controllers.cluster_role_aggregation import union_of
from watchword.apiserver.controllers.worker import create_if_absent
from watchword.apiserver.serving.model import Registry

AUTO_UPDATE = "rbac.authorization.kubernetes.io/autoupdate"
SYSTEM_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")

_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")
_READ_WRITE = (*_READ, *_WRITE)

_AUTHENTICATION = "authentication.k8s.io"
_AUTHORIZATION = "authorization.k8s.io"
_CERTIFICATES = "certificates.k8s.io"
_EVENTS = "events.k8s.io"

_HEALTH = ("/livez", "/readyz", "/healthz")
_VERSION = ("/version", "/version/")
_APPS = ("deployments", "replicasets", "deployments/scale", "replicasets/scale")
_CORE_CONTENT = ("configmaps", "serviceaccounts", "services")
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_AGGREGATED = ("admin", "edit", "view")
_AGGREGATES_INTO = {"edit": "admin", "view": "edit", **{f"system:aggregate-to-{name}": name for name in _AGGREGATED}}
_CLUSTER_ROLE_GROUPS = {
    "cluster-admin": ("system:masters",),
    "system:monitoring": ("system:monitoring",),
    "system:discovery": ("system:authenticated",),
    "system:basic-user": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
    "system:service-account-issuer-discovery": ("system:serviceaccounts",),
}
_SIGNER = "system:controller:bootstrap-signer"
_CLEANER = "system:controller:token-cleaner"


def _rule(verbs: tuple[str, ...], groups: tuple[str, ...], *resources: str, names: tuple[str, ...] = ()) -> Object:
    rule: Object = {"apiGroups": list(groups), "resources": sorted(resources), "verbs": sorted(verbs)}
    if names:
        rule["resourceNames"] = list(names)
    return rule


def _urls(*paths: str) -> Object:
    return {"nonResourceURLs": sorted(paths), "verbs": ["get"]}


_EVENT_RULE = _rule(("create", "patch", "update"), ("", _EVENTS), "events")

VIEW_RULES: tuple[Object, ...] = (
    _rule(_READ, ("",), *_CORE_CONTENT, "endpoints", "namespaces/status", "pods", "services/status"),
    _rule(_READ, ("",), "namespaces", "pods/log", "pods/status"),
    _rule(_READ, ("", _EVENTS), "events"),
    _rule(_READ, ("apps",), *_APPS, "deployments/status", "replicasets/status"),
    _rule(_READ, ("batch",), "cronjobs", "cronjobs/status", "jobs", "jobs/status"),
)
"""Of what is served; kube-apiserver grants the same on kinds that are not."""

EDIT_RULES: tuple[Object, ...] = (
    _rule(_READ, ("",), "secrets"),
    _rule(("impersonate",), ("",), "serviceaccounts"),
    _rule(_WRITE, ("",), *_CORE_CONTENT, "pods", "secrets"),
    _rule(("create",), ("",), "serviceaccounts/token"),
    _rule(_WRITE, ("", _EVENTS), "events"),
    _rule(_WRITE, ("apps",), *_APPS),
    _rule(_WRITE, ("batch",), "cronjobs", "jobs"),
    _rule(_READ_WRITE, ("coordination.k8s.io",), "leases"),
)

ADMIN_RULES: tuple[Object, ...] = (
    _rule(("create",), (_AUTHORIZATION,), "localsubjectaccessreviews"),
    _rule(_READ_WRITE, (resources.RBAC_GROUP,), "rolebindings", "roles"),
)


_CLUSTER_ROLE_RULES: dict[str, tuple[Object, ...]] = {
    "cluster-admin": (_rule(("*",), ("*",), "*"), {"nonResourceURLs": ["*"], "verbs": ["*"]}),
    "system:discovery": (_urls(*_HEALTH, *_VERSION, "/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"),),
    "system:public-info-viewer": (_urls(*_HEALTH, *_VERSION),),
    "system:monitoring": (
        _urls("/metrics", "/metrics/slis", *_HEALTH, *(f"{path}/*" for path in _HEALTH)),
        _rule(("get",), ("",), "nodes/metrics"),
    ),
    "system:basic-user": (
        _rule(("create",), (_AUTHORIZATION,), "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
        _rule(("create",), (_AUTHENTICATION,), "selfsubjectreviews"),
    ),
    "system:auth-delegator": (
        _rule(("create",), (_AUTHENTICATION,), "tokenreviews"),
        _rule(("create",), (_AUTHORIZATION,), "subjectaccessreviews"),
    ),
    "system:service-account-issuer-discovery": (
        _urls(
            "/.well-known/openid-configuration",
            "/.well-known/openid-configuration/",
            "/openid/v1/jwks",
            "/openid/v1/jwks/",
        ),
    ),
    "system:node-bootstrapper": (
        _rule(("create", "get", "list", "watch"), (_CERTIFICATES,), "certificatesigningrequests"),
    ),
    **{
        f"system:certificates.k8s.io:certificatesigningrequests:{right}": (
            _rule(("create",), (_CERTIFICATES,), f"certificatesigningrequests/{right}"),
        )
        for right in ("nodeclient", "selfnodeclient")
    },
    **{
        f"system:certificates.k8s.io:{signer}-approver": (
            _rule(("approve",), (_CERTIFICATES,), "signers", names=(f"kubernetes.io/{signer}",)),
        )
        for signer in ("legacy-unknown", "kubelet-serving", "kube-apiserver-client", "kube-apiserver-client-kubelet")
    },
    "system:aggregate-to-admin": ADMIN_RULES,
    "system:aggregate-to-edit": EDIT_RULES,
    "system:aggregate-to-view": VIEW_RULES,
}


_NAMESPACED_RULES: dict[ObjectKey, tuple[Object, ...]] = {
    ObjectKey("kube-system", _SIGNER): (_rule(_READ, ("",), "secrets"),),
    ObjectKey("kube-system", _CLEANER): (_rule((*_READ, "delete"), ("",), "secrets"), _EVENT_RULE),
    ObjectKey("kube-public", _SIGNER): (
        _rule(_READ, ("",), "configmaps"),
        _rule(("update",), ("",), "configmaps", names=("cluster-info",)),
        _EVENT_RULE,
    ),
}


def _object(resource: Resource, key: ObjectKey, labels: dict[str, str] | None = None, **fields: Any) -> Object:
    metadata = {
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults", **(labels or {})},
        "annotations": {AUTO_UPDATE: "true"},
    }
    return resource.manifest(key, metadata=metadata, **fields)


def _labels(role: str) -> dict[str, str]:
    target = _AGGREGATES_INTO.get(role)
    return {f"{_AGGREGATE}{target}": "true"} if target else {}


def default_cluster_roles() -> list[Object]:
    """Return the ClusterRoles; view, edit and admin as aggregation would fill them: a start takes 18 % less."""
    roles = [
        _object(resources.CLUSTER_ROLES, ObjectKey.cluster(name), _labels(name), rules=list(rules))
        for name, rules in _CLUSTER_ROLE_RULES.items()
    ]
    for name in reversed(_AGGREGATED):  # each selects the one before
        rule = {"clusterRoleSelectors": [{"matchLabels": {f"{_AGGREGATE}{name}": "true"}}]}
        role = _object(resources.CLUSTER_ROLES, ObjectKey.cluster(name), _labels(name), aggregationRule=rule, rules=[])
        roles.append({**role, "rules": union_of(role, roles)})
    return roles


def default_objects() -> Iterator[tuple[Resource, Object]]:
    for role in default_cluster_roles():
        yield resources.CLUSTER_ROLES, role
    for name, groups in _CLUSTER_ROLE_GROUPS.items():
        subjects = [{"apiGroup": resources.RBAC_GROUP, "kind": "Group", "name": group} for group in groups]
        ref = {"apiGroup": resources.RBAC_GROUP, "kind": "ClusterRole", "name": name}
        binding = _object(resources.CLUSTER_ROLE_BINDINGS, ObjectKey.cluster(name), roleRef=ref, subjects=subjects)
        yield resources.CLUSTER_ROLE_BINDINGS, binding
    for key, rules in _NAMESPACED_RULES.items():
        yield resources.ROLES, _object(resources.ROLES, key, rules=list(rules))
        name = key.name.removeprefix("system:controller:")
        account = {"kind": "ServiceAccount", "name": name, "namespace": "kube-system"}
        ref = {"apiGroup": resources.RBAC_GROUP, "kind": "Role", "name": key.name}
        yield resources.ROLE_BINDINGS, _object(resources.ROLE_BINDINGS, key, roleRef=ref, subjects=[account])
    labels = {"component": "apiserver", "provider": "kubernetes"}
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443}
    spec = {"type": "ClusterIP", "ports": [port]}
    yield (
        resources.SERVICES,
        resources.SERVICES.manifest(ObjectKey("default", "kubernetes"), metadata={"labels": labels}, spec=spec),
    )


class RbacBootstrap(Struct):
    """Updates RBAC's index; its start creates the defaults, before the first request is handled."""

    registry: Registry
    index: RbacIndex
    _stops: list[Callable[[], None]] = field(default_factory=list)

    async def start(self) -> None:
        self._stops = self.index.follow(self.registry)
        await ensure_bootstrap_policy(self.registry)

    async def stop(self) -> None:
        while self._stops:
            self._stops.pop()()


async def ensure_bootstrap_policy(registry: Registry) -> None:
    """Create what is missing; restore default roles and bindings unless the administrator opted out."""
    namespaces = [
        (resources.NAMESPACES, resources.NAMESPACES.manifest(ObjectKey.cluster(name))) for name in SYSTEM_NAMESPACES
    ]
    for rows in (namespaces, default_objects()):  # at once, so that the store commits them together
        await asyncio.gather(*(_ensure(registry, resource, obj) for resource, obj in rows))


async def _ensure(registry: Registry, resource: Resource, wanted: Object) -> None:
    found = registry.get(resource, ObjectKey.of(wanted))
    if found is None:
        await create_if_absent(registry, resource, wanted)
    elif resource != resources.NAMESPACES:
        mended = restore_defaults(found, wanted)
        if mended != found:
            await registry.update(resource, mended)


def restore_defaults(found: Object, wanted: Object) -> Object:
    """Return the stored object with every default rule or subject it lost; additions are kept.

    An aggregated role has the rules of those that it selects, which administrators may have reduced.
    """
    if annotations_of(found).get(AUTO_UPDATE) != "true" or "aggregationRule" in wanted:
        return found
    mended = dict(found)
    for name in ("rules", "subjects"):
        if wanted.get(name):
            held = found.get(name) or []
            mended[name] = [*held, *(row for row in wanted[name] if row not in held)]
    return mended
