"""Every review and its handler, as data."""

from __future__ import annotations

from collections.abc import Mapping

from watchword.api.meta import Resource
from watchword.api.resources import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.apiserver.authn.chain import TokenChain
from watchword.apiserver.authz.rbac import RbacAuthorizer
from watchword.apiserver.model import Handler, Now
from watchword.apiserver.reviews.access import (
    AccessReviewHandler,
    SelfAccessReviewHandler,
    SelfRulesReviewHandler,
    local_access_review,
)
from watchword.apiserver.reviews.authentication import SelfSubjectReviewHandler, TokenReviewHandler


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
