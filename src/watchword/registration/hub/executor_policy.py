"""Lets a user name an executor in a ManifestWork only with the right to `execute-as` it, as RBAC alone cannot say."""

from watchword.api.admission_policy import PolicyName, bound_policy
from watchword.api.meta import Manifest
from watchword.api.names import UNNAMED_EXECUTOR
from watchword.api.resources import MANIFEST_WORKS

EXECUTOR_GATE = "NilExecutorValidating"  # demands an executor of every work

_SUBJECT = "object.spec.executor.subject"
_ACCOUNT = f"{_SUBJECT}.serviceAccount"
_IS_NAMED = f"has(object.spec) && has(object.spec.executor) && has({_SUBJECT})"
_IS_WHOLE = f"has({_ACCOUNT}) && {_ACCOUNT}.namespace != '' && {_ACCOUNT}.name != ''"
# Also manifests: a user who may only update works would otherwise act as the executor that another user named.
_IS_UNCHANGED = "(oldObject != null && has(object.spec) && has(oldObject.spec) && object.spec == oldObject.spec)"


def _may_execute_as(name: str) -> str:
    works = f"authorizer.group('{MANIFEST_WORKS.group}').resource('{MANIFEST_WORKS.plural}')"
    return f"{works}.namespace(request.namespace).name({name}).check('execute-as').allowed()"


def executor_policy_manifests(*, is_demanded: bool = False) -> tuple[Manifest, Manifest]:
    """Return the policy and its binding; `is_demanded` makes a work without an executor need a right as well."""
    name = f"'system:serviceaccount:' + {_ACCOUNT}.namespace + ':' + {_ACCOUNT}.name"
    rules = {
        f"{_IS_UNCHANGED} || !({_IS_NAMED}) || ({_IS_WHOLE} && {_may_execute_as(name)})": (
            "the executor of a work needs the right to execute-as manifestworks"
            " with the name system:serviceaccount:<namespace>:<name>, in the namespace of the work"
        )
    }
    if is_demanded:
        allowed = _may_execute_as(f"'{UNNAMED_EXECUTOR}'")
        rules[f"{_IS_UNCHANGED} || ({_IS_NAMED}) || {allowed}"] = (
            "this hub demands an executor: name one in spec.executor, or get the right to execute-as manifestworks"
            f" with the name {UNNAMED_EXECUTOR}"
        )
    return bound_policy(PolicyName.EXECUTOR, (MANIFEST_WORKS.group, MANIFEST_WORKS.plural), rules)
