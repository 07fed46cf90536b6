"""The kinds that are answered and not stored: reviews and token requests."""

from __future__ import annotations

from watchword.api.meta import Resource
from watchword.api.resources import (
    LOCAL_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SELF_SUBJECT_RULES_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.apiserver.kinds.build import KindStrategy, builtin
from watchword.apiserver.kinds.names import any_name
from watchword.apiserver.model import ResourceKind

TOKEN_REQUESTS = Resource("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest")


def _review_kind(resource: Resource) -> ResourceKind:
    return builtin(resource, KindStrategy(name=any_name), verbs=("create",), stored=False)


TOKEN_REVIEW = _review_kind(TOKEN_REVIEWS)
SELF_SUBJECT_REVIEW = _review_kind(SELF_SUBJECT_REVIEWS)
SUBJECT_ACCESS_REVIEW = _review_kind(SUBJECT_ACCESS_REVIEWS)
SELF_SUBJECT_ACCESS_REVIEW = _review_kind(SELF_SUBJECT_ACCESS_REVIEWS)
LOCAL_SUBJECT_ACCESS_REVIEW = _review_kind(LOCAL_SUBJECT_ACCESS_REVIEWS)
SELF_SUBJECT_RULES_REVIEW = _review_kind(SELF_SUBJECT_RULES_REVIEWS)
TOKEN_REQUEST = _review_kind(TOKEN_REQUESTS)  # served as a subresource of service accounts alone

REVIEWS = (
    TOKEN_REVIEW,
    SELF_SUBJECT_REVIEW,
    SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_ACCESS_REVIEW,
    LOCAL_SUBJECT_ACCESS_REVIEW,
    SELF_SUBJECT_RULES_REVIEW,
)
