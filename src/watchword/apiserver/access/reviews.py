"""Reviews, which are answered and not stored: identities and rights."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from watchword.api import resources
from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.time import rfc3339
from watchword.apiserver.access.chain import CredentialRefused, TokenChain
from watchword.apiserver.access.rbac import Authorizer, RbacAuthorizer, join_problems
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
    ManagedFieldsTracker,
    WriteRequest,
    prune_and_default,
    read_write_request,
)


class ReviewRequest(Struct, frozen=True):
    """A review as its client sent it, and the requested format of the response."""

    review: Object
    call: WriteRequest


def read_review_request(request: HandlerRequest, kind: ResourceKind) -> ReviewRequest:
    """Return the review in the body; 405 for other verbs, 400 when it is of another kind or namespace."""
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
    return ReviewRequest({**head, **body, "metadata": set_fields}, call)


def track(review_request: ReviewRequest, kind: ResourceKind, now: Now, subresource: str = "") -> None:
    """Set managedFields of the review: the server does so for everything that is created."""
    operation = Operation(
        "create",
        kind,
        ObjectKey("", ""),
        review_request.call.user,
        new=review_request.review,
        old=None,
        subresource=subresource,
    )
    ManagedFieldsTracker(now).track(operation, review_request.call)


def _require_kind(body: Object, resource: Resource) -> None:
    kind, api_version = body.get("kind") or resource.kind, body.get("apiVersion") or resource.api_version
    if (kind, api_version) != (resource.kind, resource.api_version):
        version = str(api_version).rpartition("/")[2]
        package = resource.group.partition(".")[0]
        raise errors.bad_request(
            f"{kind} in version {errors.quote(version)} cannot be handled as a {resource.kind}: "
            f"converting ({version}.{kind}) to ({package}.{resource.kind}): unknown conversion"
        )


def review_response(request: HandlerRequest, review: Object, warnings: list[str] | None = None) -> Response:
    return object_response(request, review, 201, warnings)


def filled(row: Object) -> Object:
    return {key: filled(value) if isinstance(value, dict) else value for key, value in row.items() if value != ""}


def texts(value: Any, path: str) -> tuple[str, ...]:
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
        raise errors.bad_request(f"{path} must be a list of strings")
    return tuple(value or ())


def text(value: Any, path: str) -> str:
    if not isinstance(value, str | None):
        raise errors.bad_request(f"{path} must be a string")
    return value or ""


def mapping(value: Any, path: str) -> Object:
    if not isinstance(value, dict | None):
        raise errors.bad_request(f"{path} must be an object")
    return value or {}


GROUP = "authorization.k8s.io"


class AccessReviewHandler(Struct, frozen=True):
    """Serves SubjectAccessReview, Local… for one namespace and Self…, which `kubectl auth can-i` uses."""

    resource: Resource
    authorizer: Authorizer
    now: Now

    async def __call__(self, request: HandlerRequest) -> Response:
        kind = REVIEWS[self.resource]
        review_request = read_review_request(request, kind)
        review, spec = review_request.review, review_request.review.get("spec") or {}
        of_caller, local = self.resource == resources.SELF_SUBJECT_ACCESS_REVIEWS, self.resource.namespaced
        found = [*spec_errors(spec), *([] if of_caller else _subject_errors(spec))]
        found += _metadata_errors(review["metadata"], local=local)
        if local:
            found += _local_errors(spec, request.info.namespace)
        if found:
            raise errors.invalid_kind(GROUP, "", "", found)
        track(review_request, kind, self.now)
        status = decide(self.authorizer, request.user if of_caller else read_subject(spec), spec)
        answer = {**review, "spec": filled(spec), "status": status}
        return review_response(request, answer, review_request.call.warnings)


class SelfRulesReviewHandler(Struct, frozen=True):
    """Serves SelfSubjectRulesReview: every rule of the caller in one namespace."""

    authorizer: RbacAuthorizer

    async def __call__(self, request: HandlerRequest) -> Response:
        review_request = read_review_request(request, REVIEWS[resources.SELF_SUBJECT_RULES_REVIEWS])
        review = review_request.review
        namespace = text((review.get("spec") or {}).get("namespace"), "spec.namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        held = self.authorizer.rules_for(request.user, namespace)
        status: Object = {
            "resourceRules": [rule.manifest() for rule in held.rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in held.rules if rule.urls
            ],
            "incomplete": False,
        }
        if held.problems:
            status["evaluationError"] = join_problems(held.problems)
        head = {"kind": review["kind"], "apiVersion": review["apiVersion"]}
        return review_response(
            request, {**head, "metadata": {}, "spec": {}, "status": status}, review_request.call.warnings
        )


def decide(authorizer: Authorizer, user: User, spec: Object) -> Object:
    decision = authorizer.decide(user, read_attributes(spec))
    status: Object = {"allowed": decision.allowed}
    if decision.reason:
        status["reason"] = decision.reason
    return status


def read_attributes(spec: Object) -> RequestInfo:
    row = spec.get("resourceAttributes")
    if row is None:
        other = spec.get("nonResourceAttributes") or {}
        path, verb = other.get("path"), other.get("verb")
        return RequestInfo(verb=text(verb, "spec.nonResourceAttributes.verb"), path=text(path, "path"))
    fields = {key: text(row.get(key), f"spec.resourceAttributes.{key}") for key in _ATTRIBUTES}
    return RequestInfo(path="", is_resource=True, **{**fields, "version": fields["version"] or "*"})


_ATTRIBUTES = ("verb", "group", "version", "resource", "subresource", "namespace", "name")


def read_subject(spec: Object) -> User:
    extra = {
        key: texts(values, f"spec.extra[{key}]") for key, values in mapping(spec.get("extra"), "spec.extra").items()
    }
    groups = texts(spec.get("groups"), "spec.groups")
    return User(text(spec.get("user"), "spec.user"), text(spec.get("uid"), "spec.uid"), groups, extra)


def spec_errors(spec: Object) -> list[FieldError]:
    """Return an error unless exactly one kind of attributes is present."""
    resource, other = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    mapping(resource, "spec.resourceAttributes")
    mapping(other, "spec.nonResourceAttributes")
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


class TokenReviewHandler(Struct, frozen=True):
    """Returns the user of a token; a bad token is a review result, not an error."""

    tokens: TokenChain
    now: Now

    async def __call__(self, request: HandlerRequest) -> Response:
        review_request = read_review_request(request, REVIEWS[resources.TOKEN_REVIEWS])
        spec = review_request.review.get("spec") or {}
        token = text(spec.get("token"), "spec.token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = texts(spec.get("audiences"), "spec.audiences")
        track(review_request, REVIEWS[resources.TOKEN_REVIEWS], self.now)
        status = await self._review(token, audiences)
        return review_response(request, {**review_request.review, "status": status}, review_request.call.warnings)

    async def _review(self, token: str, audiences: tuple[str, ...]) -> Object:
        try:
            found = await self.tokens.identify(token, audiences)
        except CredentialRefused as refusal:
            return {"user": {}, "error": str(refusal)}
        status: Object = {"authenticated": True, "user": user_info(found.user)}
        if found.audiences:
            status["audiences"] = list(found.audiences)
        return status


class SelfSubjectReviewHandler(Struct, frozen=True):
    """Returns the caller, after impersonation."""

    now: Now

    async def __call__(self, request: HandlerRequest) -> Response:
        """Handle one SelfSubjectReview; the body is ignored."""
        review_request = read_review_request(request, REVIEWS[resources.SELF_SUBJECT_REVIEWS])
        review: Object = {
            "kind": resources.SELF_SUBJECT_REVIEWS.kind,
            "apiVersion": resources.SELF_SUBJECT_REVIEWS.api_version,
            "metadata": {"creationTimestamp": rfc3339(self.now())},
            "status": {"userInfo": user_info(request.user)},
        }
        return review_response(request, review, review_request.call.warnings)


def review_handlers(tokens: TokenChain, authorizer: RbacAuthorizer, now: Now) -> Mapping[Resource, Handler]:
    return {
        resources.TOKEN_REVIEWS: TokenReviewHandler(tokens, now),
        resources.SELF_SUBJECT_REVIEWS: SelfSubjectReviewHandler(now),
        resources.SELF_SUBJECT_RULES_REVIEWS: SelfRulesReviewHandler(authorizer),
        **{resource: AccessReviewHandler(resource, authorizer, now) for resource in _ACCESS_REVIEWS},
    }


_ACCESS_REVIEWS = (
    resources.SUBJECT_ACCESS_REVIEWS,
    resources.LOCAL_SUBJECT_ACCESS_REVIEWS,
    resources.SELF_SUBJECT_ACCESS_REVIEWS,
)
