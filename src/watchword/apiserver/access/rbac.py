"""RBAC: allowed when any rule of any binding of the user matches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from msgspec import Struct, field

from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES
from watchword.apiserver.access.rules import Rule, read_rules
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.errors import quote
from watchword.apiserver.serving.model import Registry, RequestInfo, User

SUPERUSERS = "system:masters"

_MARKUP = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class AuthorizationDecision(Struct, frozen=True):
    """Whether it is allowed; without an allowing rule it is not."""

    allowed: bool
    reason: str = ""


class Authorizer(Protocol):
    """Decides immediately, from memory, on every request."""

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision: ...


def is_superuser(user: User) -> bool:
    return SUPERUSERS in user.groups


def require(authorizer: Authorizer, user: User, info: RequestInfo) -> None:
    """Return when allowed; raise the 403 that kube-apiserver would send otherwise."""
    decision = authorizer.decide(user, info)
    if not decision.allowed:
        message = _describe(user, info).translate(_MARKUP)
        resource = Resource(info.group, info.version, info.resource, "") if info.is_resource else None
        raise errors.forbidden(resource, info.name, f"{message}: {decision.reason}" if decision.reason else message)


def _describe(user: User, info: RequestInfo) -> str:
    if not info.is_resource:
        return f"User {quote(user.name)} cannot {info.verb} path {quote(info.path)}"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    where = f"in the namespace {quote(info.namespace)}" if info.namespace else "at the cluster scope"
    what = f"{info.verb} resource {quote(resource)} in API group {quote(info.group)}"
    return f"User {quote(user.name)} cannot {what} {where}"


SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"
RoleKey = tuple[str, ObjectKey]
"""The kind of a role, and where it is."""


class BindingSubject(Struct, frozen=True):
    """One subject of a binding; `identity` is its user or group name, empty when it matches none."""

    kind: str
    name: str
    namespace: str
    identity: str

    def applies_to(self, user: User) -> bool:
        if not self.identity:
            return False
        return self.identity in user.groups if self.kind == "Group" else self.identity == user.name

    def __str__(self) -> str:
        name = f"{self.name}/{self.namespace}" if self.kind == "ServiceAccount" else self.name
        return f'{self.kind} "{name}"'


class Binding(Struct, frozen=True):
    """One RoleBinding or ClusterRoleBinding (namespace empty)."""

    key: ObjectKey
    role: RoleKey
    subjects: tuple[BindingSubject, ...]

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> Binding:
        key = ObjectKey.of(obj)
        ref = obj.get("roleRef") or {}
        subjects = tuple(_read_subject(row, key.namespace) for row in obj.get("subjects") or ())
        kind = ref.get("kind") or ""
        place = ObjectKey("" if kind == "ClusterRole" else key.namespace, ref.get("name") or "")
        return cls(key, (kind, place), subjects)

    def index_keys(self) -> Iterator[tuple[str, bool, str]]:
        """Yield the scope, whether it is a group, and the name of each subject."""
        for subject in self.subjects:
            if subject.identity:
                yield self.key.namespace, subject.kind == "Group", subject.identity

    def describe(self, user: User) -> str:
        subject = next(subject for subject in self.subjects if subject.applies_to(user))
        kind, name = "ClusterRoleBinding", self.key.name
        if self.key.namespace:
            kind, name = "RoleBinding", f"{self.key.name}/{self.key.namespace}"
        role_kind, role = self.role
        return f'{kind} "{name}" of {role_kind} "{role.name}" to {subject}'


def _read_subject(row: Mapping[str, Any], binding_namespace: str) -> BindingSubject:
    kind, name = row.get("kind") or "", row.get("name") or ""
    namespace = ""
    identity = name if kind in {"User", "Group"} else ""
    if kind == "ServiceAccount":
        namespace = row.get("namespace") or binding_namespace
        identity = f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}" if namespace else ""
    return BindingSubject(kind, name, namespace, identity)


class RbacIndex(Struct):
    """What RBAC decides from. Call `follow` once; it stays current by itself."""

    roles: dict[RoleKey, tuple[Rule, ...]] = field(default_factory=dict)
    _bindings: dict[ObjectKey, Binding] = field(default_factory=dict)
    _by_subject: dict[tuple[str, bool, str], dict[str, Binding]] = field(default_factory=dict)

    def follow(self, registry: Registry) -> list[Callable[[], None]]:
        """Take over every change with the write that makes it; return how to stop."""
        return [
            registry.subscribe(CLUSTER_ROLES, self._role_changed),
            registry.subscribe(ROLES, self._role_changed),
            registry.subscribe(CLUSTER_ROLE_BINDINGS, self._binding_changed),
            registry.subscribe(ROLE_BINDINGS, self._binding_changed),
        ]

    def bindings_for(self, user: User, namespace: str) -> Iterator[Binding]:
        """Yield every binding that applies to the user; twice when two subjects match."""
        for scope in ("", namespace) if namespace else ("",):
            yield from self._by_subject.get((scope, False, user.name), {}).values()
            for group in user.groups:
                yield from self._by_subject.get((scope, True, group), {}).values()

    def _role_changed(self, change: str, obj: Object) -> None:
        key = obj["kind"], ObjectKey.of(obj)
        self.roles.pop(key, None)  # one that cannot be read grants nothing
        if change != "DELETED":
            self.roles[key] = read_rules(obj)

    def _binding_changed(self, change: str, obj: Object) -> None:
        key = ObjectKey.of(obj)
        known = self._bindings.pop(key, None)
        for place in set(known.index_keys()) if known is not None else ():
            del self._by_subject[place][key.name]
            if not self._by_subject[place]:
                del self._by_subject[place]
        if change != "DELETED":
            binding = Binding.read(obj)
            places = dict.fromkeys(binding.index_keys())  # all or none of them: those of a binding are removed together
            self._bindings[key] = binding
            for place in places:
                self._by_subject.setdefault(place, {})[key.name] = binding


class RbacAuthorizer(Struct, frozen=True):
    """Decides from the index; members of system:masters may do everything."""

    index: RbacIndex

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        if is_superuser(user):
            return AuthorizationDecision(allowed=True)
        combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        problems: list[str] = []
        for binding in self.index.bindings_for(user, info.namespace):
            rules = self.index.roles.get(binding.role)
            if rules is None:
                problems.append(_missing_role(binding))
                continue
            for rule in rules:
                if rule.allows(info, combined):
                    return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {binding.describe(user)}")
        if problems:
            return AuthorizationDecision(allowed=False, reason=f"RBAC: {join_problems(problems)}")
        return AuthorizationDecision(allowed=False)

    def rules_for(self, user: User, namespace: str) -> tuple[list[Rule], list[str]]:
        """Return what a user may do in one namespace, and which roles could not be resolved."""
        rules: list[Rule] = []
        problems: list[str] = []
        for binding in {binding.key: binding for binding in self.index.bindings_for(user, namespace)}.values():
            found = self.index.roles.get(binding.role)
            if found is None:
                problems.append(_missing_role(binding))
            else:
                rules.extend(found)
        return rules, problems


def join_problems(problems: Sequence[str]) -> str:
    """Join distinct sentences as Kubernetes does: one bare, several in brackets."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _missing_role(binding: Binding) -> str:
    kind, role = binding.role
    return f'{kind.lower()}.rbac.authorization.k8s.io "{role.name}" not found'
