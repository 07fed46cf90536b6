"""Asks the API server about identities and their rights (SelfSubjectReview, SubjectAccessReview)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import orjson
from msgspec import Struct, field

from watchword.api.credential_report import CREDENTIAL_ID
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.resources import (
    SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
)
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.connect import client_for_context
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig_files import load_kubeconfig
from watchword.kube.request_sender import decode


class UserIdentity(Struct, frozen=True):
    """An identity as the server reports it."""

    username: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()  # for authorizers that limit a user further, by scopes

    @property
    def credential_id(self) -> str:
        """The credential that the request was made with; empty when the server does not tell."""
        return next((values[0] for name, values in self.extra if name == CREDENTIAL_ID and values), "")


class ResourceAccess(Struct, frozen=True):
    """One verb on one resource; an empty key means any object."""

    verb: str
    resource: Resource
    key: ObjectKey = field(default_factory=lambda: ObjectKey("", ""))
    subresource: str = ""

    def attributes(self) -> Object:
        return {
            "verb": self.verb,
            "group": self.resource.group,
            "version": self.resource.version,
            "resource": self.resource.plural,
            "subresource": self.subresource,
            "namespace": self.key.namespace,
            "name": self.key.name,
        }


async def who_am_i(client: Client) -> UserIdentity:
    status = await _create_review(client, SELF_SUBJECT_REVIEWS, {})
    return read_identity(status.get("userInfo") or {})


async def can_i(client: Client, access: ResourceAccess) -> bool:
    status = await _create_review(client, SELF_SUBJECT_ACCESS_REVIEWS, {"resourceAttributes": access.attributes()})
    return status.get("allowed") is True


async def may(client: Client, who: UserIdentity, access: ResourceAccess) -> bool:
    extra = {name: list(values) for name, values in who.extra}
    subject = {"user": who.username, "uid": who.uid, "groups": list(who.groups), **({"extra": extra} if extra else {})}
    status = await _create_review(
        client, SUBJECT_ACCESS_REVIEWS, {"resourceAttributes": access.attributes(), **subject}
    )
    return status.get("allowed") is True


async def review_token(client: Client, token: Sensitive[str], *, audiences: Sequence[str] = ()) -> UserIdentity | None:
    """Return the identity that the server finds in a token, None when it refuses the token.

    With audiences, a token for none of them is refused; without, it must be for the server itself.
    """
    status = await _create_review(
        client, TOKEN_REVIEWS, {"token": token.reveal(), **({"audiences": list(audiences)} if audiences else {})}
    )
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    if audiences and not set(audiences) & set(status.get("audiences") or ()):
        return None  # an authenticator that does not know audiences answers without them
    return read_identity(user)


def read_identity(user: Object) -> UserIdentity:
    """Return the identity in a review, or in the spec of a CertificateSigningRequest."""
    extra = tuple((name, tuple(values)) for name, values in sorted((user.get("extra") or {}).items()))
    return UserIdentity(user.get("username", ""), user.get("uid", ""), tuple(user.get("groups") or ()), extra)


async def _create_review(client: Client, review: Resource, spec: Object) -> Object:
    body = {"apiVersion": review.api_version, "kind": review.kind, "metadata": {}, "spec": spec}
    answer = decode(await client.request("POST", review.path(), body=body))
    status = answer.get("status")
    return status if isinstance(status, dict) else {}


class TokenReviewClient(Struct, frozen=True):
    """Posts to exactly the address in the kubeconfig."""

    client: Client
    path: str

    @classmethod
    def connect(cls, kubeconfig: Path) -> TokenReviewClient:
        """Return a client for the current context of a file; `ConfigError` when the file cannot be used."""
        choice = load_kubeconfig(kubeconfig).choose()
        has_path = urlsplit(choice.cluster.server).path.strip("/")
        return cls(client_for_context(choice), "" if has_path else "/")

    async def __call__(self, review: Object) -> Mapping[str, Any]:
        """Return the reviewed TokenReview; `ConnectionError` when the server does not answer with one."""
        try:
            response = await self.client.request("POST", self.path, body=review)
            answer = orjson.loads(response.body)
        except KubeError as cause:
            raise ConnectionError("the token webhook did not answer") from cause
        except orjson.JSONDecodeError as cause:
            raise ConnectionError("the token webhook did not answer with a TokenReview") from cause
        if response.status // 100 != 2 or not isinstance(answer, dict) or answer.get("kind") != "TokenReview":
            raise ConnectionError("the token webhook did not answer with a TokenReview")
        return answer
