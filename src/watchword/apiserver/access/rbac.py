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
from watchword.apiserver.serving.model import ApiError, Registry, RequestInfo, User

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
        raise forbidden_request(user, info, decision.reason)


def forbidden_request(user: User, info: RequestInfo, reason: str = "") -> ApiError:
    message = describe_refusal(user, info)
    if reason:
        message = f"{message}: {reason}"
    resource = Resource(info.group, info.version, info.resource, "") if info.is_resource else None
    return errors.forbidden(resource, info.name, message)


def describe_refusal(user: User, info: RequestInfo) -> str:
    return _describe(user, info).translate(_MARKUP)


def _describe(user: User, info: RequestInfo) -> str:
    if not info.is_resource:
        return f"User {quote(user.name)} cannot {info.verb} path {quote(info.path)}"
    resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
    where = f"in the namespace {quote(info.namespace)}" if info.namespace else "at the cluster scope"
    what = f"{info.verb} resource {quote(resource)} in API group {quote(info.group)}"
    return f"User {quote(user.name)} cannot {what} {where}"


SERVICE_ACCOUNT_PREFIX = "system:serviceaccount:"


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
    role_kind: str
    role_name: str
    subjects: tuple[BindingSubject, ...]

    @classmethod
    def read(cls, obj: Mapping[str, Any]) -> Binding:
        key = ObjectKey.of(obj)
        ref = obj.get("roleRef") or {}
        rows = obj.get("subjects") or ()
        subjects = tuple(_read_subject(row, key.namespace) for row in rows)
        return cls(key, ref.get("kind") or "", ref.get("name") or "", subjects)

    def describe(self, user: User) -> str:
        subject = next(subject for subject in self.subjects if subject.applies_to(user))
        kind, name = "ClusterRoleBinding", self.key.name
        if self.key.namespace:
            kind, name = "RoleBinding", f"{self.key.name}/{self.key.namespace}"
        return f'{kind} "{name}" of {self.role_kind} "{self.role_name}" to {subject}'


def _read_subject(row: Mapping[str, Any], binding_namespace: str) -> BindingSubject:
    kind, name = row.get("kind") or "", row.get("name") or ""
    namespace = ""
    identity = name if kind in {"User", "Group"} else ""
    if kind == "ServiceAccount":
        namespace = row.get("namespace") or binding_namespace
        identity = f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}" if namespace else ""
    return BindingSubject(kind, name, namespace, identity)


class BindingTable(Struct):
    """The bindings of one scope, by user name and by group."""

    by_user: dict[str, dict[str, Binding]] = field(default_factory=dict)
    by_group: dict[str, dict[str, Binding]] = field(default_factory=dict)

    def add(self, binding: Binding) -> None:
        for subject in binding.subjects:
            if subject.identity:
                table = self.by_group if subject.kind == "Group" else self.by_user
                table.setdefault(subject.identity, {})[binding.key.name] = binding

    def remove(self, binding: Binding) -> None:
        for subject in binding.subjects:
            table = self.by_group if subject.kind == "Group" else self.by_user
            row = table.get(subject.identity)
            if row is not None:
                row.pop(binding.key.name, None)
                if not row:
                    del table[subject.identity]

    def of(self, user: User) -> Iterator[Binding]:
        """Yield every binding that applies to the user; twice when two subjects match."""
        row = self.by_user.get(user.name)
        if row:
            yield from row.values()
        groups = self.by_group
        for group in user.groups:
            row = groups.get(group)
            if row:
                yield from row.values()

    @property
    def empty(self) -> bool:
        return not self.by_user and not self.by_group


class RbacIndex(Struct):
    """What RBAC decides from. Call `follow` once; it stays current by itself."""

    cluster_roles: dict[str, tuple[Rule, ...]] = field(default_factory=dict)
    roles: dict[ObjectKey, tuple[Rule, ...]] = field(default_factory=dict)
    cluster_bindings: BindingTable = field(default_factory=BindingTable)
    bindings: dict[str, BindingTable] = field(default_factory=dict)
    _known: dict[ObjectKey, Binding] = field(default_factory=dict)

    def follow(self, registry: Registry) -> Callable[[], None]:
        stops = [
            registry.subscribe(CLUSTER_ROLES, self._cluster_role_changed),
            registry.subscribe(ROLES, self._role_changed),
            registry.subscribe(CLUSTER_ROLE_BINDINGS, self._binding_changed),
            registry.subscribe(ROLE_BINDINGS, self._binding_changed),
        ]

        def stop_all() -> None:
            for stop in stops:
                stop()

        return stop_all

    def rules_of(self, binding: Binding) -> Sequence[Rule] | None:
        """Return the rules a binding refers to, None when the role is gone."""
        if binding.role_kind == "ClusterRole":
            return self.cluster_roles.get(binding.role_name)
        if binding.role_kind == "Role":
            return self.roles.get(ObjectKey(binding.key.namespace, binding.role_name))
        return None

    def bindings_for(self, user: User, namespace: str) -> Iterator[Binding]:
        yield from self.cluster_bindings.of(user)
        if namespace:
            table = self.bindings.get(namespace)
            if table is not None:
                yield from table.of(user)

    def _cluster_role_changed(self, change: str, obj: Object) -> None:
        name = ObjectKey.of(obj).name
        if change == "DELETED":
            self.cluster_roles.pop(name, None)
        else:
            self.cluster_roles[name] = read_rules(obj)

    def _role_changed(self, change: str, obj: Object) -> None:
        key = ObjectKey.of(obj)
        if change == "DELETED":
            self.roles.pop(key, None)
        else:
            self.roles[key] = read_rules(obj)

    def _binding_changed(self, change: str, obj: Object) -> None:
        key = ObjectKey.of(obj)
        table = self.bindings.setdefault(key.namespace, BindingTable()) if key.namespace else self.cluster_bindings
        known = self._known.pop(key, None)
        if known is not None:
            table.remove(known)
        if change != "DELETED":
            self._known[key] = Binding.read(obj)
            table.add(self._known[key])
        if key.namespace and table.empty:
            self.bindings.pop(key.namespace, None)


class HeldRules(Struct, frozen=True):
    """What a user may do in one namespace, and which roles could not be resolved."""

    rules: tuple[Rule, ...]
    problems: tuple[str, ...] = ()


class RbacAuthorizer(Struct, frozen=True):
    """Decides from the index; members of system:masters may do everything."""

    index: RbacIndex

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        if is_superuser(user):
            return AuthorizationDecision(allowed=True)
        combined = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        problems: list[str] = []
        for binding in self.index.bindings_for(user, info.namespace):
            rules = self.index.rules_of(binding)
            if rules is None:
                problems.append(_missing_role(binding))
                continue
            for rule in rules:
                if rule.allows(info, combined):
                    return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {binding.describe(user)}")
        if problems:
            return AuthorizationDecision(allowed=False, reason=f"RBAC: {join_problems(problems)}")
        return AuthorizationDecision(allowed=False)

    def rules_for(self, user: User, namespace: str) -> HeldRules:
        rules: list[Rule] = []
        problems: list[str] = []
        for binding in {binding.key: binding for binding in self.index.bindings_for(user, namespace)}.values():
            found = self.index.rules_of(binding)
            if found is None:
                problems.append(_missing_role(binding))
            else:
                rules.extend(found)
        return HeldRules(tuple(rules), tuple(dict.fromkeys(problems)))


def join_problems(problems: Sequence[str]) -> str:
    """Join distinct sentences as Kubernetes does: one bare, several in brackets."""
    distinct = list(dict.fromkeys(problems))
    return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


def _missing_role(binding: Binding) -> str:
    return f'{binding.role_kind.lower()}.rbac.authorization.k8s.io "{binding.role_name}" not found'
