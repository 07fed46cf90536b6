"""A ValidatingAdmissionPolicy, compiled, and its decisions about one request."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.apiserver.access.chain import AUTHENTICATED, service_account_groups, service_account_name
from watchword.apiserver.access.rbac import AuthorizationDecision, Authorizer, join_problems
from watchword.apiserver.admission.policy_matching import AdmissionAttributes, MatchResources
from watchword.apiserver.serving.model import Operation, RequestInfo, User, user_info
from watchword.cel.evaluate import Environment, Expression, compile_expression
from watchword.cel.functions import CelError, typed
from watchword.cel.syntax import CelSyntaxError

LONGEST_MESSAGE_BYTES = 5 * 1024  # of a messageExpression
_REQUEST = frozenset(("object", "oldObject", "request", "namespaceObject"))
_AUTHORIZER = frozenset(("authorizer", "authorizer.requestResource"))
_NAMESPACE_FIELDS = frozenset(("managedFields", "ownerReferences"))  # hidden from policies
Variables = dict[str, Any]


class UserAuthorizer(Struct, frozen=True):
    """The value of `authorizer`, and of `authorizer.serviceAccount(…)`."""

    authorizer: Authorizer
    user: User


class GroupCheck(Struct, frozen=True):
    """An API group whose resources can be asked about."""

    asking: UserAuthorizer
    group: str


class AccessCheck(Struct, frozen=True):
    """A resource or path; `check` asks for the right to use it with a verb."""

    asking: UserAuthorizer
    info: RequestInfo


def request_resource(asking: UserAuthorizer, request: AdmissionAttributes) -> AccessCheck:
    resource = request.resource
    info = RequestInfo("", is_resource=True, group=resource.group, version=resource.version, resource=resource.plural)
    info = replace(info, subresource=request.subresource, namespace=request.namespace, name=request.name)
    return AccessCheck(asking, info)


def _service_account(asking: UserAuthorizer, namespace: str, name: str) -> UserAuthorizer:
    groups = (*service_account_groups(namespace), AUTHENTICATED)
    return UserAuthorizer(asking.authorizer, User(service_account_name(namespace, name), groups=groups))


def _resource(group: GroupCheck, resource: str) -> AccessCheck:
    info = RequestInfo("", is_resource=True, group=group.group, version="*", resource=resource)
    return AccessCheck(group.asking, info)


def _refine(field: str) -> Callable[[AccessCheck, str], AccessCheck]:
    return lambda check, value: AccessCheck(check.asking, replace(check.info, **{field: value}))


def _check(check: AccessCheck, verb: str) -> AuthorizationDecision:
    return check.asking.authorizer.decide(check.asking.user, replace(check.info, verb=verb))


METHODS: Final[dict[tuple[str, int], Callable[..., Any]]] = {
    ("path", 2): typed(lambda asking, path: AccessCheck(asking, RequestInfo("", path)), UserAuthorizer, str),
    ("group", 2): typed(GroupCheck, UserAuthorizer, str),
    ("serviceAccount", 3): typed(_service_account, UserAuthorizer, str, str),
    ("resource", 2): typed(_resource, GroupCheck, str),
    ("subresource", 2): typed(_refine("subresource"), AccessCheck, str),
    ("namespace", 2): typed(_refine("namespace"), AccessCheck, str),
    ("name", 2): typed(_refine("name"), AccessCheck, str),
    ("check", 2): typed(_check, AccessCheck, str),
    ("allowed", 1): typed(lambda decision: decision.allowed, AuthorizationDecision),
    ("reason", 1): typed(lambda decision: decision.reason, AuthorizationDecision),
    ("errored", 1): typed(lambda _: False, AuthorizationDecision),
    ("error", 1): typed(lambda _: "", AuthorizationDecision),
}


CONDITIONS = Environment(_REQUEST | _AUTHORIZER, methods=METHODS)
"""What matchConditions may use: they are evaluated before the policy's variables."""


class EvaluationFailed(Exception):
    """An expression has no value; failurePolicy decides what that means."""


class PolicyExpression(Struct, frozen=True):
    """One expression of a policy; one that cannot be compiled fails when it is evaluated."""

    text: str
    compiled: Expression | None
    problem: str = ""

    @classmethod
    def compile(cls, text: str, environment: Environment) -> PolicyExpression:
        try:
            return cls(text, compile_expression(text, environment))
        except CelSyntaxError as error:
            return cls(text, None, str(error))

    def evaluate(self, variables: Variables) -> Any:
        """Return the value; raises `EvaluationFailed`."""
        if self.compiled is None:
            raise EvaluationFailed(f"compilation error: {self.problem}")
        try:
            return self.compiled.evaluate(variables)
        except CelError as error:
            raise EvaluationFailed(f"expression '{self.text}' resulted in error: {error}") from error


class Validation(Struct, frozen=True):
    """One condition of a policy, and the message of its refusal."""

    expression: PolicyExpression
    message: str
    message_expression: PolicyExpression | None
    reason: str


class Denial(Struct, frozen=True):
    """Why a policy refuses a request."""

    message: str
    reason: str = "Invalid"
    index: int = 0  # of the validation


class Policy(Struct, frozen=True):
    """A compiled policy."""

    name: str
    match: MatchResources
    fails_closed: bool
    conditions: tuple[PolicyExpression, ...] = ()
    variables: Mapping[str, PolicyExpression] = field(default_factory=dict)
    validations: tuple[Validation, ...] = ()
    problem: str = ""  # why it cannot be evaluated at all

    def decide(self, variables: Variables) -> Iterator[Denial]:
        try:
            if not self._applies(variables):
                return
        except EvaluationFailed as failure:
            if self.fails_closed:
                yield Denial(str(failure))
            return
        for name, expression in self.variables.items():  # each is evaluated when it is first needed
            variables[f"variables.{name}"] = _once(name, expression, variables)
        for index, validation in enumerate(self.validations):
            try:
                if validation.expression.evaluate(variables) is not True:
                    yield Denial(message_of(validation, variables), validation.reason, index)
            except EvaluationFailed as failure:
                if self.fails_closed:
                    yield Denial(str(failure), index=index)

    def _applies(self, variables: Variables) -> bool:
        """Whether every matchCondition holds; one that does not hold outweighs those that fail."""
        if self.problem:
            raise EvaluationFailed(f"failed to configure policy: {self.problem}")
        failures = []
        for condition in self.conditions:
            try:
                value = condition.evaluate(variables)
            except EvaluationFailed as failure:
                failures.append(str(failure))
                continue
            if value is False:
                return False
            if value is not True:
                failures.append(f"expression '{condition.text}' resulted in error: must evaluate to bool")
        if failures:
            raise EvaluationFailed(join_problems(failures))
        return True


@lru_cache(maxsize=256)  # the same one for the same names: what is compiled in it is found again
def environment_of(names: frozenset[str], *, authorizer: bool = True) -> Environment:
    known = _REQUEST | (_AUTHORIZER if authorizer else frozenset())
    return Environment(known | {f"variables.{name}" for name in names}, methods=METHODS)


def compile_policy(obj: Object) -> Policy:
    name, spec = obj["metadata"]["name"], obj.get("spec") or {}
    fails_closed = spec.get("failurePolicy") != "Ignore"
    match = MatchResources.read(spec.get("matchConstraints") or {})
    if spec.get("paramKind"):
        return Policy(name, match, fails_closed, problem="paramKind is not supported by this server")
    variables: dict[str, PolicyExpression] = {}
    for row in spec.get("variables") or ():
        variables[row["name"]] = PolicyExpression.compile(row["expression"], environment_of(frozenset(variables)))
    whole = environment_of(frozenset(variables))
    messages = environment_of(frozenset(variables), authorizer=False)
    return Policy(
        name,
        match,
        fails_closed,
        conditions=tuple(
            PolicyExpression.compile(row["expression"], CONDITIONS) for row in spec.get("matchConditions") or ()
        ),
        variables=variables,
        validations=tuple(_validation(row, whole, messages) for row in spec.get("validations") or ()),
    )


def _validation(row: Object, environment: Environment, messages: Environment) -> Validation:
    text = row.get("messageExpression")
    return Validation(
        PolicyExpression.compile(row["expression"], environment),
        row.get("message") or "",
        PolicyExpression.compile(text, messages) if text else None,
        row.get("reason") or "Invalid",
    )


def message_of(validation: Validation, variables: Variables) -> str:
    """Return the message of a refusal: computed, written, or the expression itself."""
    computed: Any = None
    if validation.message_expression is not None:
        with suppress(EvaluationFailed):
            computed = validation.message_expression.evaluate(variables)
    message = computed.strip() if isinstance(computed, str) else ""
    if not message or "\n" in message or len(message.encode()) > LONGEST_MESSAGE_BYTES:
        message = validation.message.strip() or f"failed expression: {validation.expression.text.strip()}"
    return message


def request_variables(
    operation: Operation, request: AdmissionAttributes, namespace: Object | None, authorizer: Authorizer
) -> Variables:
    asking = UserAuthorizer(authorizer, operation.user)
    return {
        "object": request.object,
        "oldObject": request.old,
        "request": _request(operation, request),
        "namespaceObject": None if namespace is None else _shown_namespace(namespace),
        "authorizer": asking,
        "authorizer.requestResource": lambda: request_resource(asking, request),
    }


def _once(name: str, expression: PolicyExpression, variables: Variables) -> Callable[[], Any]:
    held: list[Any] = []

    def value() -> Any:
        if not held:
            if expression.compiled is None:
                raise CelError(f'composited variable "{name}" fails to compile: {expression.problem}')
            try:
                held.append(expression.compiled.evaluate(variables))
            except CelError as error:
                raise CelError(f'composited variable "{name}" fails to evaluate: {error}') from error
        return held[0]

    return value


def _request(operation: Operation, request: AdmissionAttributes) -> Object:
    """Return the AdmissionRequest; empty texts are absent, as in JSON."""
    asked, named = operation.kind.resource, request.resource
    shown = request.object or request.old or {}
    sent = operation.new or operation.old or shown
    found = {
        "uid": "",
        "kind": _kind(shown),
        "resource": {"group": named.group, "version": named.version, "resource": named.plural},
        "requestKind": _kind(shown if named == asked else sent),
        "requestResource": {"group": asked.group, "version": asked.version, "resource": asked.plural},
        "operation": request.operation,
        "userInfo": user_info(operation.user),
        "dryRun": operation.dry_run,
        "options": {
            "kind": f"{operation.verb.capitalize()}Options",
            "apiVersion": "meta.k8s.io/v1",
            **operation.options,
        },
    }
    texts = {
        "subResource": request.subresource,
        "requestSubResource": request.subresource,
        "name": request.name,
        "namespace": request.namespace,
    }
    return found | {name: text for name, text in texts.items() if text}


def _kind(obj: Object) -> Object:
    group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
    return {"group": group, "version": version, "kind": str(obj.get("kind") or "")}


def _shown_namespace(namespace: Object) -> Object:
    metadata = {name: value for name, value in namespace["metadata"].items() if name not in _NAMESPACE_FIELDS}
    return {**namespace, "metadata": metadata}
