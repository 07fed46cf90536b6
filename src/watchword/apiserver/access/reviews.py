"""Reviews, which are answered and not stored: identities and rights."""

from collections.abc import Mapping
from functools import partial

from msgspec import Struct, to_builtins

from watchword.api import resources
from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.time import rfc3339
from watchword.apiserver.access.chain import CredentialRefused, TokenChain
from watchword.apiserver.access.rbac import RbacAuthorizer, join_problems
from watchword.apiserver.kinds.build import REVIEWS
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.bodies import JSON, decode_body, duplicate_fields, media_type
from watchword.apiserver.serving.field_errors import invalid
from watchword.apiserver.serving.model import (
    FieldError,
    Handler,
    HandlerRequest,
    Now,
    Operation,
    RequestInfo,
    ResourceKind,
    User,
    user_info,
)
from watchword.apiserver.serving.negotiation import object_response
from watchword.apiserver.serving.pipeline import (
    WriteRequest,
    prune_and_default,
    read_write_request,
    track_managed_fields,
)


def read_review_request(request: HandlerRequest, kind: ResourceKind) -> tuple[Object, WriteRequest]:
    """Return the review and how it is written; 405 for other verbs, 400 when it is of another kind or namespace."""
    if request.method != "POST":
        raise errors.verb_not_allowed()
    body = decode_body(request)
    _require_kind(body, kind.resource)
    call = read_write_request(request, options_kind="CreateOptions")
    is_json = media_type(request.header("content-type")) == JSON
    prune_and_default(kind, body, call, duplicate_fields(request.body, body) if is_json else [])
    metadata = body["metadata"]
    namespace = request.info.namespace
    if metadata.get("namespace") not in {None, "", namespace}:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    if kind.resource.namespaced:
        metadata["namespace"] = namespace
    head = {"kind": kind.resource.kind, "apiVersion": kind.resource.api_version}
    set_fields = {key: value for key, value in metadata.items() if value is not None}
    return {**body, **head, "metadata": set_fields}, call


def track(review: Object, call: WriteRequest, kind: ResourceKind, now: Now, subresource: str = "") -> None:
    """Set managedFields of the review: the server does so for everything that is created."""
    key = ObjectKey("", "")
    operation = Operation("create", kind, key, call.user, new=review, old=None, subresource=subresource)
    track_managed_fields(operation, call, now)


def _require_kind(body: Object, resource: Resource) -> None:
    kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if (kind, api_version) != (resource.kind, resource.api_version):
        version = str(api_version).rpartition("/")[2]
        package = resource.group.partition(".")[0]
        raise errors.bad_request(
            f"{kind} in version {errors.quote(version)} cannot be handled as a {resource.kind}: "
            f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )


def filled(row: Object) -> Object:
    return {key: filled(value) if isinstance(value, dict) else value for key, value in row.items() if value != ""}


GROUP = "authorization.k8s.io"


class ReviewHandlers(Struct, frozen=True):
    """Answers the reviews of each kind."""

    tokens: TokenChain
    authorizer: RbacAuthorizer
    now: Now

    async def review_access(self, resource: Resource, request: HandlerRequest) -> Response:
        """Answer SubjectAccessReview, Local… for one namespace and Self…, which `kubectl auth can-i` uses."""
        kind = REVIEWS[resource]
        review, call = read_review_request(request, kind)
        spec = review.get("spec") or {}
        of_caller, local = resource == resources.SELF_SUBJECT_ACCESS_REVIEWS, resource.namespaced
        found = [*spec_errors(spec), *([] if of_caller else _subject_errors(spec))]
        found += _metadata_errors(review["metadata"], local=local)
        if local:
            found += _local_errors(spec, request.info.namespace)
        if found:
            raise errors.invalid_kind(GROUP, "", "", found)
        track(review, call, kind, self.now)
        decision = self.authorizer.decide(request.user if of_caller else read_subject(spec), read_attributes(spec))
        status: Object = {"allowed": decision.allowed}
        if decision.reason:
            status["reason"] = decision.reason
        return object_response(request, {**review, "spec": filled(spec), "status": status}, 201, call.warnings)

    async def review_own_rules(self, request: HandlerRequest) -> Response:
        """Answer SelfSubjectRulesReview: every rule of the caller in one namespace."""
        review, call = read_review_request(request, REVIEWS[resources.SELF_SUBJECT_RULES_REVIEWS])
        namespace = (review.get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        rules, problems = self.authorizer.rules_for(request.user, namespace)
        status: Object = {
            "resourceRules": [to_builtins(rule) for rule in rules if rule.resources],
            "nonResourceRules": [to_builtins(rule) for rule in rules if rule.urls],
            "incomplete": False,
        }
        if problems:
            status["evaluationError"] = join_problems(problems)
        answer = {"kind": review["kind"], "apiVersion": review["apiVersion"], "metadata": {}, "spec": {}}
        return object_response(request, {**answer, "status": status}, 201, call.warnings)

    async def review_token(self, request: HandlerRequest) -> Response:
        """Answer with the user of a token; a bad token is a result, not an error."""
        review, call = read_review_request(request, REVIEWS[resources.TOKEN_REVIEWS])
        spec = review.get("spec") or {}
        token = spec.get("token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        track(review, call, REVIEWS[resources.TOKEN_REVIEWS], self.now)
        try:
            found = await self.tokens.identify(token, tuple(spec.get("audiences") or ()))
        except CredentialRefused as refusal:
            status: Object = {"user": {}, "error": str(refusal)}
        else:
            status = {"authenticated": True, "user": user_info(found.user)}
            if found.audiences:
                status["audiences"] = list(found.audiences)
        return object_response(request, {**review, "status": status}, 201, call.warnings)

    async def review_self(self, request: HandlerRequest) -> Response:
        """Answer with the caller, after impersonation; the body is ignored."""
        review, call = read_review_request(request, REVIEWS[resources.SELF_SUBJECT_REVIEWS])
        answer: Object = {
            "kind": review["kind"],
            "apiVersion": review["apiVersion"],
            "metadata": {"creationTimestamp": rfc3339(self.now())},
            "status": {"userInfo": user_info(request.user)},
        }
        return object_response(request, answer, 201, call.warnings)


def review_handlers(tokens: TokenChain, authorizer: RbacAuthorizer, now: Now) -> Mapping[Resource, Handler]:
    handlers = ReviewHandlers(tokens, authorizer, now)
    return {
        resources.TOKEN_REVIEWS: handlers.review_token,
        resources.SELF_SUBJECT_REVIEWS: handlers.review_self,
        resources.SELF_SUBJECT_RULES_REVIEWS: handlers.review_own_rules,
        **{resource: partial(handlers.review_access, resource) for resource in _ACCESS_REVIEWS},
    }


_ACCESS_REVIEWS = (
    resources.SUBJECT_ACCESS_REVIEWS,
    resources.LOCAL_SUBJECT_ACCESS_REVIEWS,
    resources.SELF_SUBJECT_ACCESS_REVIEWS,
)


def read_attributes(spec: Object) -> RequestInfo:
    row = spec.get("resourceAttributes")
    if row is None:
        other = spec.get("nonResourceAttributes") or {}
        return RequestInfo(other.get("verb") or "", other.get("path") or "")
    fields = {key: row.get(key) or "" for key in _ATTRIBUTES}
    return RequestInfo(is_resource=True, **{**fields, "version": fields["version"] or "*"})


_ATTRIBUTES = ("verb", "group", "version", "resource", "subresource", "namespace", "name")


def read_subject(spec: Object) -> User:
    extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def spec_errors(spec: Object) -> list[FieldError]:
    """Return an error unless exactly one kind of attributes is present."""
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and other is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _printed(other), detail)]
    if resource is None and other is None:
        detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, detail)]
    return []


def _subject_errors(spec: Object) -> list[FieldError]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _metadata_errors(metadata: Object, *, local: bool) -> list[FieldError]:
    ignored = {"managedFields", "creationTimestamp", *(("namespace",) if local else ())}
    if not any(value for key, value in metadata.items() if key not in ignored):
        return []
    detail = "must be empty except for namespace" if local else "must be empty"
    return [invalid("metadata", metadata, detail)]


def _local_errors(spec: Object, namespace: str) -> list[FieldError]:
    found = []
    row, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if row is not None and (row.get("namespace") or "") != namespace:
        path = "spec.resourceAttributes.namespace"
        found.append(invalid(path, row.get("namespace") or "", "must match metadata.namespace"))
    if other is not None:
        found.append(invalid("spec.nonResourceAttributes", _printed(other), "disallowed on this kind of request"))
    return found


def _printed(attributes: Object) -> Object:
    # the message shows the server's own spelling of the fields, not the wire's
    return {"Path": attributes.get("path") or "", "Verb": attributes.get("verb") or ""}
