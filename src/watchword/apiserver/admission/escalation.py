"""Refuses roles and bindings that grant more than the writer has."""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import RBAC_GROUP
from watchword.apiserver.access.rbac import RbacAuthorizer, is_superuser, join_problems
from watchword.apiserver.access.rules import Rule, compacted, quoted_list, read_rules, uncovered
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.errors import quote
from watchword.apiserver.serving.model import Operation, RequestInfo, User

FULL_AUTHORITY = (Rule(("*",), ("*",), ("*",)), Rule(("*",), urls=("*",)))

_GARBAGE_COLLECTION_FIELDS = ("ownerReferences", "finalizers", "managedFields", "selfLink")


class EscalationGuard(Struct, frozen=True):
    """An admission step for the four RBAC kinds; other operations pass."""

    authorizer: RbacAuthorizer

    async def __call__(self, operation: Operation) -> None:
        """Raise 403 when the write would grant rights the user lacks."""
        resource = operation.kind.resource
        if operation.verb not in {"create", "update"} or resource.group != RBAC_GROUP or operation.new is None:
            return
        if is_superuser(operation.user) or _without_ownership(operation.new) == _without_ownership(operation.old):
            return
        if resource.plural in {"roles", "clusterroles"}:
            self._guard_role(operation, operation.new)
        else:
            self._guard_binding(operation, operation.new)

    def _guard_role(self, operation: Operation, role: Object) -> None:
        resource = operation.kind.resource
        name = operation.key.name if operation.verb == "update" else ""
        if self._may(operation.user, "escalate", resource.plural, ObjectKey(operation.key.namespace, name)):
            return
        self._require_held(operation, read_rules(role))
        if _aggregates(role) or (operation.old is not None and _aggregates(operation.old)):
            held, _ = self.authorizer.rules_for(operation.user, operation.key.namespace)
            if uncovered(held, FULL_AUTHORITY):
                message = "must have cluster-admin privileges to use the aggregationRule"
                raise errors.forbidden(resource, operation.key.name, message)

    def _guard_binding(self, operation: Operation, binding: Object) -> None:
        ref = binding.get("roleRef") or {}
        plural = {"ClusterRole": "clusterroles", "Role": "roles"}.get(ref.get("kind") or "")
        if plural is None:
            return  # validation refuses it with a better message
        key = ObjectKey(operation.key.namespace, ref.get("name") or "")
        if self._may(operation.user, "bind", plural, key):
            return
        role = ObjectKey.cluster(key.name) if plural == "clusterroles" else key
        rules = self.authorizer.index.roles.get((ref["kind"], role))
        if rules is None:
            raise errors.not_found(operation.kind.resource, key.name)  # upstream, too, names the binding's resource
        self._require_held(operation, rules)

    def _may(self, user: User, verb: str, plural: str, key: ObjectKey) -> bool:
        info = RequestInfo(verb, is_resource=True, group=RBAC_GROUP, version="*", resource=plural)
        return self.authorizer.decide(user, replace(info, namespace=key.namespace, name=key.name)).allowed

    def _require_held(self, operation: Operation, wanted: Iterable[Rule]) -> None:
        user = operation.user
        held, problems = self.authorizer.rules_for(user, operation.key.namespace)
        missing = uncovered(held, wanted)
        if not missing:
            return
        listed = "\n".join(sorted({str(rule) for rule in compacted(missing)}))
        message = (
            f"user {quote(user.name)} (groups={quoted_list(user.groups)}) is attempting to grant "
            f"RBAC permissions not currently held:\n{listed}"
        )
        if problems:
            message += f"; resolution errors: [{join_problems(problems)}]"
        raise errors.forbidden(operation.kind.resource, operation.key.name, message)


def _aggregates(role: Object) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _without_ownership(obj: Object | None) -> Object | None:
    if obj is None:
        return None
    metadata = {key: value for key, value in obj["metadata"].items() if key not in _GARBAGE_COLLECTION_FIELDS}
    return {**obj, "metadata": metadata}
