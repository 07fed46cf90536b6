"""Every review and its handler, as data."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, Resource
from watchword.api.resources import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.api.time import rfc3339
from watchword.apiserver import errors
from watchword.apiserver.authn.chain import TokenChain
from watchword.apiserver.authn.model import CredentialRefused
from watchword.apiserver.authz.rbac import RbacAuthorizer
from watchword.apiserver.kinds.build import SELF_SUBJECT_REVIEW, TOKEN_REVIEW
from watchword.apiserver.model import Handler, HandlerRequest, Now
from watchword.apiserver.reviews.access import (
    AccessReviewHandler,
    SelfAccessReviewHandler,
    SelfRulesReviewHandler,
    local_access_review,
)
from watchword.apiserver.reviews.review_request import (
    read_review_request,
    review_response,
    text,
    texts,
    track,
    user_info,
)


class TokenReviewHandler(Struct, frozen=True):
    """Returns the user of a token; a bad token is a review result, not an error."""

    tokens: TokenChain
    now: Now

    async def __call__(self, request: HandlerRequest) -> Response:
        """Handle one TokenReview."""
        review_request = read_review_request(request, TOKEN_REVIEW)
        spec = review_request.review.get("spec") or {}
        token = text(spec.get("token"), "spec.token")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = texts(spec.get("audiences"), "spec.audiences")
        track(review_request, TOKEN_REVIEW, self.now)
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
        review_request = read_review_request(request, SELF_SUBJECT_REVIEW)
        review: Object = {
            "kind": SELF_SUBJECT_REVIEWS.kind,
            "apiVersion": SELF_SUBJECT_REVIEWS.api_version,
            "metadata": {"creationTimestamp": rfc3339(self.now())},
            "status": {"userInfo": user_info(request.user)},
        }
        return review_response(request, review, review_request.call.warnings)


def review_handlers(tokens: TokenChain, authorizer: RbacAuthorizer, now: Now) -> Mapping[Resource, Handler]:
    """Return the handler for `create` of each review."""
    return {
        TOKEN_REVIEWS: TokenReviewHandler(tokens, now),
        SELF_SUBJECT_REVIEWS: SelfSubjectReviewHandler(now),
        SUBJECT_ACCESS_REVIEWS: AccessReviewHandler(authorizer, now),
        LOCAL_SUBJECT_ACCESS_REVIEWS: local_access_review(authorizer, now),
        SELF_SUBJECT_ACCESS_REVIEWS: SelfAccessReviewHandler(authorizer, now),
        SELF_SUBJECT_RULES_REVIEWS: SelfRulesReviewHandler(authorizer),
    }
