"""TokenRequest: a short-lived token for a ServiceAccount."""

from __future__ import annotations

from datetime import timedelta

from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.names import AGENT_GROUP_PREFIXES, LONGEST_AGENT_TOKEN_SECONDS
from watchword.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.apiserver import errors
from watchword.apiserver import field_errors as broken
from watchword.apiserver.kinds.build import TOKEN_REQUEST, TOKEN_REQUESTS
from watchword.apiserver.model import FieldError, HandlerRequest, Now, Registry, User
from watchword.apiserver.reviews.review_request import (
    mapping,
    read_review_request,
    review_response,
    text,
    texts,
    track,
)
from watchword.apiserver.tokens.issuer import BoundObjects, TokenIssuer, TokenLifetime

DEFAULT_SECONDS = 3600
SHORTEST_SECONDS = 600
LONGEST_SECONDS = 2**32
# Kubelets request exactly this for pods; the token gets a longer expiry for clients that never read it again.
EXTENDABLE_SECONDS = 3607
EXTENDED_SECONDS = 365 * 24 * 3600

_CONFLICTS = Resource(TOKEN_REQUESTS.group, "v1", "TokenRequest", "TokenRequest")  # as the message spells it


class TokenLimits(Struct, frozen=True):
    """What the operator of the plane has decided about lifetimes."""

    maximum_seconds: int = 0  # 0: no limit
    extend: bool = True


class TokenRequestHandler(Struct, frozen=True):
    """Serves `create` on `serviceaccounts/token`."""

    registry: Registry
    issuer: TokenIssuer
    api_audiences: tuple[str, ...]
    now: Now
    limits: TokenLimits = TokenLimits()

    async def __call__(self, request: HandlerRequest) -> Response:
        """Issue one token; nothing is stored."""
        review_request = read_review_request(request, TOKEN_REQUEST)
        body, warnings = review_request.review, review_request.call.warnings
        account = self._account(request, body)
        _default_seconds(body)
        track(review_request, TOKEN_REQUEST, self.now, subresource="token")
        spec = self._spec(body)
        objection = validate_agent_request(request.user, spec, self.api_audiences)
        if objection:
            raise errors.forbidden(SERVICE_ACCOUNTS, request.info.name, objection)
        bindings = find_bound_objects(self.registry, account, spec)
        lifetime = choose_token_lifetime(spec, self.limits, bindings, self.api_audiences, warnings)
        now = self.now()
        token = self.issuer.issue(account, spec["audiences"], lifetime, bindings, now=now)
        metadata = account["metadata"]
        reply: Object = {
            "kind": TOKEN_REQUESTS.kind,
            "apiVersion": TOKEN_REQUESTS.api_version,
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": uid_of(account),
                "creationTimestamp": rfc3339(now),
                "managedFields": body["metadata"].get("managedFields"),
            },
            "spec": spec,
            "status": {
                "token": token.reveal(),  # the one place where a token leaves the control plane
                "expirationTimestamp": rfc3339(now + timedelta(seconds=spec["expirationSeconds"])),
            },
        }
        return review_response(request, reply, warnings)

    def _account(self, request: HandlerRequest, body: Object) -> Object:
        key = ObjectKey(request.info.namespace, request.info.name)
        asked = body["metadata"].get("name")
        if asked and asked != key.name:
            detail = "must match the service account name if specified"
            raise errors.invalid(TOKEN_REQUESTS, key.name, [broken.invalid("metadata.name", asked, detail)])
        account = self.registry.get(SERVICE_ACCOUNTS, key)
        if account is None:
            raise errors.not_found(SERVICE_ACCOUNTS, key.name)
        uid = body["metadata"].get("uid")
        if uid and uid != uid_of(account):
            message = (
                f"the UID in the token request ({uid}) does not match the UID of the service account "
                f"({uid_of(account)})"
            )
            raise errors.conflict(_CONFLICTS, key.name, message)
        return account

    def _spec(self, body: Object) -> Object:
        spec = mapping(body.get("spec"), "spec")
        seconds = spec["expirationSeconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, int):
            raise errors.bad_request("spec.expirationSeconds must be a whole number")
        found = validate_expiration_seconds(seconds)
        if found:
            raise errors.invalid(TOKEN_REQUESTS, "", found)
        audiences = texts(spec.get("audiences"), "spec.audiences") or self.api_audiences
        bound = mapping(spec.get("boundObjectRef"), "spec.boundObjectRef") or None
        return {"audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": bound}


def _default_seconds(body: Object) -> None:
    spec = body.setdefault("spec", {})
    if spec.get("expirationSeconds") is None:
        spec["expirationSeconds"] = DEFAULT_SECONDS


def validate_expiration_seconds(seconds: int) -> list[FieldError]:
    """Return an error when a lifetime is outside of the allowed range."""
    path = "spec.expirationSeconds"
    if seconds < SHORTEST_SECONDS:
        return [broken.invalid(path, seconds, "may not specify a duration less than 10 minutes")]
    if seconds > LONGEST_SECONDS:
        return [broken.invalid(path, seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


def validate_agent_request(user: User, spec: Object, api_audiences: tuple[str, ...]) -> str:
    """Return why the agent of a managed cluster may not have such a token; empty for other users."""
    if not any(group.startswith(AGENT_GROUP_PREFIXES) for group in user.groups):
        return ""
    if spec["expirationSeconds"] > LONGEST_AGENT_TOKEN_SECONDS:
        return f"agents may request tokens of at most {LONGEST_AGENT_TOKEN_SECONDS} seconds"
    if not set(spec["audiences"]) <= set(api_audiences):
        return "agents may request tokens for this hub alone: name no audience"
    return ""


def choose_token_lifetime(
    spec: Object, limits: TokenLimits, bindings: BoundObjects, api_audiences: tuple[str, ...], warnings: list[str]
) -> TokenLifetime:
    """Decide the lifetime of the token; a shortened request is changed in place with a warning."""
    asked: int = spec["expirationSeconds"]
    if 0 < limits.maximum_seconds < asked:
        warnings.append(f"requested expiration of {asked} seconds shortened to {limits.maximum_seconds} seconds")
        spec["expirationSeconds"] = asked = limits.maximum_seconds
    extendable = bindings.pod is not None and set(spec["audiences"]) <= set(api_audiences)
    if limits.extend and extendable and asked == EXTENDABLE_SECONDS:
        return TokenLifetime(EXTENDED_SECONDS, warn_after_seconds=asked)
    return TokenLifetime(asked)


def find_bound_objects(registry: Registry, account: Object, spec: Object) -> BoundObjects:
    """Return the live objects that the token is to be bound to; 400, 404 or 409 when it cannot be."""
    ref = spec.get("boundObjectRef")
    if ref is None:
        return BoundObjects()
    version, kind = text(ref.get("apiVersion"), "apiVersion"), text(ref.get("kind"), "kind")
    name, namespace = text(ref.get("name"), "name"), account["metadata"]["namespace"]
    group, _, bare = version.rpartition("/")
    resource = _BINDABLE.get(kind) if not group else None
    if resource is None:
        raise errors.bad_request(f"cannot bind token to object of type {group}/{bare}, Kind={kind}")
    if not name:
        raise errors.bad_request("Name parameter required.")
    bound = registry.get(resource, ObjectKey(namespace if resource.namespaced else "", name))
    if bound is None:
        raise errors.not_found(resource, name)
    bindings = _bind(registry, resource, bound, account["metadata"]["name"])
    uid = text(ref.get("uid"), "uid")
    if uid and uid != uid_of(bound):
        message = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(Resource("", "v1", kind, kind), name, message)
    return bindings


_BINDABLE = {"Pod": PODS, "Node": NODES, "Secret": SECRETS}


def _bind(registry: Registry, resource: Resource, bound: Object, account_name: str) -> BoundObjects:
    if resource is SECRETS:
        return BoundObjects(secret=bound)
    if resource is NODES:
        return BoundObjects(node=bound)
    spec = bound.get("spec") or {}
    if spec.get("serviceAccountName") != account_name:
        raise errors.bad_request(
            f"cannot bind token for serviceaccount {errors.quote(account_name)} to pod running with "
            "different serviceaccount name."
        )
    node_name = spec.get("nodeName")
    if not node_name:
        return BoundObjects(pod=bound)
    node = registry.get(NODES, ObjectKey.cluster(node_name))
    return BoundObjects(pod=bound, node=node or {"metadata": {"name": node_name}})
