"""RBAC: allowed when any rule of any binding of the user matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from watchword.apiserver.authz.model import AuthorizationDecision, is_superuser
from watchword.apiserver.authz.rbac_index import Binding, RbacIndex
from watchword.apiserver.authz.rules import Rule
from watchword.apiserver.model import RequestInfo, User

_SUPERUSER = AuthorizationDecision(allowed=True)
_NO_OPINION = AuthorizationDecision(allowed=False)


class HeldRules(Struct, frozen=True):
    """What a user may do in one namespace, and which roles could not be resolved."""

    rules: tuple[Rule, ...]
    problems: tuple[str, ...] = ()


class RbacAuthorizer(Struct, frozen=True):
    """Decides from the index; members of system:masters may do everything."""

    index: RbacIndex

    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        """Return whether any binding of the user allows the request."""
        if is_superuser(user):
            return _SUPERUSER
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
        return _NO_OPINION

    def rules_for(self, user: User, namespace: str) -> HeldRules:
        """Return every rule that applies to the user in that namespace."""
        rules: list[Rule] = []
        problems: list[str] = []
        for binding in _distinct(self.index.bindings_for(user, namespace)):
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


def _distinct(bindings: Iterator[Binding]) -> Iterator[Binding]:
    return iter({binding.key: binding for binding in bindings}.values())


def _missing_role(binding: Binding) -> str:
    return f'{binding.role_kind.lower()}.rbac.authorization.k8s.io "{binding.role_name}" not found'
