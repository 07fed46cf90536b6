"""ServiceAccount tokens: requested, issued, signed, and described to other systems."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from uuid import uuid4

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.limits import LONGEST_TOKEN_LIFETIME, SHORTEST_TOKEN_LIFETIME
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.api.resources import NODES, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.apiserver.access.chain import service_account_name
from watchword.apiserver.access.reviews import read_review_request, track
from watchword.apiserver.access.service_accounts import CLAIM_PREFIX, LEGACY_ISSUER, TokenKeys
from watchword.apiserver.kinds.build import TOKEN_REQUEST, TOKEN_REQUESTS
from watchword.apiserver.serving import errors
from watchword.apiserver.serving.errors import no_representation
from watchword.apiserver.serving.field_errors import invalid
from watchword.apiserver.serving.model import Admit, Handler, HandlerRequest, Now, Registry
from watchword.apiserver.serving.negotiation import object_response
from watchword.apiserver.serving.pipeline import WriteRequest
from watchword.pki.jwt import TokenSigner, algorithm_of, key_set_document

KEY_SET_PATH = "/openid/v1/jwks"
KEY_SET = "application/jwk-set+json"

_CACHE = ("Cache-Control", "public, max-age=3600")


def _accepts(accept: str, media: str) -> bool:
    named = {clause.partition(";")[0].strip().lower() for clause in accept.split(",") if clause.strip()}
    return not named or bool(named & {media, "*/*", "application/*"})


def discovery_handlers(issuer: str, keys: TokenKeys) -> Mapping[str, Handler]:
    """Return the handler for each document; none when the issuer is not one that can be discovered."""
    if not issuer.startswith("https://") or "?" in issuer or "#" in issuer:
        return {}

    async def configuration(_request: HandlerRequest) -> Response:
        document: Object = {
            "issuer": issuer,
            "jwks_uri": issuer.rstrip("/") + KEY_SET_PATH,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({algorithm_of(key) for key in keys.public}),
        }
        return Response(200, (("Content-Type", "application/json"), _CACHE), orjson.dumps(document))

    async def key_set(request: HandlerRequest) -> Response:
        if not _accepts(request.header("accept"), KEY_SET):
            raise no_representation((KEY_SET,))
        return Response(200, (("Content-Type", KEY_SET), _CACHE), orjson.dumps(key_set_document(keys.public)))

    return {"/.well-known/openid-configuration": configuration, KEY_SET_PATH: key_set}


BoundObjects = Mapping[str, Object]
"""The objects that a token is bound to, by `node`, `pod` or `secret`; a pod may come with its node."""


class TokenIssuer(Struct, frozen=True):
    """Signs tokens in the name of one issuer."""

    issuer: str
    signer: TokenSigner

    def issue(
        self,
        account: Object,
        audiences: Sequence[str],
        seconds: int,
        bindings: BoundObjects,
        *,
        now: datetime,
        warn_after_seconds: int = 0,
    ) -> Sensitive[str]:
        claims: Object = {
            "namespace": account["metadata"]["namespace"],
            **{name: _reference(bound) for name, bound in bindings.items()},
            "serviceaccount": _reference(account),
        }
        if warn_after_seconds:
            claims["warnafter"] = int((now + timedelta(seconds=warn_after_seconds)).timestamp())
        return self.signer.sign(
            {
                "aud": list(audiences),
                "exp": int((now + timedelta(seconds=seconds)).timestamp()),
                "iat": int(now.timestamp()),
                "iss": self.issuer,
                "jti": str(uuid4()),
                "kubernetes.io": claims,
                "nbf": int(now.timestamp()),
                "sub": service_account_name(account["metadata"]["namespace"], account["metadata"]["name"]),
            }
        )

    def issue_legacy(self, account: Object, secret_name: str) -> Sensitive[str]:
        """Return the token of a Secret for the account: without expiry, bound to that Secret."""
        namespace, name = account["metadata"]["namespace"], account["metadata"]["name"]
        return self.signer.sign(
            {
                "iss": LEGACY_ISSUER,
                f"{CLAIM_PREFIX}namespace": namespace,
                f"{CLAIM_PREFIX}secret.name": secret_name,
                f"{CLAIM_PREFIX}service-account.name": name,
                f"{CLAIM_PREFIX}service-account.uid": uid_of(account),
                "sub": service_account_name(namespace, name),
            }
        )


def _reference(obj: Object) -> Object:
    reference = {"name": obj["metadata"]["name"]}
    uid = uid_of(obj)
    return {**reference, "uid": uid} if uid else reference


DEFAULT_SECONDS = 3600
# Kubelets request exactly this for pods; the token gets a longer expiry for clients that never read it again.
EXTENDABLE_SECONDS = 3607
EXTENDED_SECONDS = 365 * 24 * 3600

_CONFLICTS = Resource(TOKEN_REQUESTS.group, "v1", "TokenRequest", "TokenRequest")  # as the message spells it


class TokenRequestHandler(Struct, frozen=True):
    """Serves `create` on `serviceaccounts/token`."""

    registry: Registry
    issuer: TokenIssuer
    api_audiences: tuple[str, ...]
    now: Now
    admit: Admit  # admission policies

    async def __call__(self, request: HandlerRequest) -> Response:
        body, call = read_review_request(request, TOKEN_REQUEST)
        account = self._account(request, body)
        if body.setdefault("spec", {}).get("expirationSeconds") is None:
            body["spec"]["expirationSeconds"] = DEFAULT_SECONDS
        track(body, call, TOKEN_REQUEST, self.now, subresource="token")
        spec = self._spec(body)
        now = self.now()
        await self._admit(call, account, {**body, "spec": spec}, now)
        bindings = find_bound_objects(self.registry, account, spec)
        seconds, warn_after = spec["expirationSeconds"], 0
        if seconds == EXTENDABLE_SECONDS and "pod" in bindings and set(spec["audiences"]) <= set(self.api_audiences):
            seconds, warn_after = EXTENDED_SECONDS, seconds
        token = self.issuer.issue(account, spec["audiences"], seconds, bindings, now=now, warn_after_seconds=warn_after)
        reply: Object = {
            "kind": TOKEN_REQUESTS.kind,
            "apiVersion": TOKEN_REQUESTS.api_version,
            "metadata": {
                **_identity(account, now),
                "uid": uid_of(account),
                "managedFields": body["metadata"].get("managedFields"),
            },
            "spec": spec,
            "status": {
                "token": token.reveal(),  # the one place where a token leaves the control plane
                "expirationTimestamp": rfc3339(now + timedelta(seconds=spec["expirationSeconds"])),
            },
        }
        return object_response(request, reply, 201, call.warnings)

    async def _admit(self, call: WriteRequest, account: Object, body: Object, now: datetime) -> None:
        """Let admission policies judge the request as kube-apiserver shows it to them: with its defaults."""
        kind = self.registry.kind(SERVICE_ACCOUNTS.group, SERVICE_ACCOUNTS.version, SERVICE_ACCOUNTS.plural)
        if kind is None:
            return
        shown = {**body, "metadata": {**body["metadata"], **_identity(account, now)}}
        shown["spec"] = {name: value for name, value in body["spec"].items() if value is not None}
        operation = call.operation("create", kind, ObjectKey.of(account), new=shown, old=None, subresource="token")
        await self.admit(operation)

    def _account(self, request: HandlerRequest, body: Object) -> Object:
        key = ObjectKey(request.info.namespace, request.info.name)
        asked = body["metadata"].get("name")
        if asked and asked != key.name:
            detail = "must match the service account name if specified"
            raise errors.invalid(TOKEN_REQUESTS, key.name, [invalid("metadata.name", asked, detail)])
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
        spec = body["spec"]
        seconds = spec["expirationSeconds"]
        shortest, longest = SHORTEST_TOKEN_LIFETIME.total_seconds(), LONGEST_TOKEN_LIFETIME.total_seconds()
        if not shortest <= seconds <= longest:
            limit = "less than 10 minutes" if seconds < shortest else "larger than 2^32 seconds"
            wrong = invalid("spec.expirationSeconds", seconds, f"may not specify a duration {limit}")
            raise errors.invalid(TOKEN_REQUESTS, "", [wrong])
        audiences = list(spec.get("audiences") or self.api_audiences)
        bound = spec.get("boundObjectRef") or None
        return {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound}


def _identity(account: Object, now: datetime) -> Object:
    metadata = account["metadata"]
    return {"name": metadata["name"], "namespace": metadata["namespace"], "creationTimestamp": rfc3339(now)}


def find_bound_objects(registry: Registry, account: Object, spec: Object) -> BoundObjects:
    """Return the live objects that the token is to be bound to; 400, 404 or 409 when it cannot be."""
    ref = spec.get("boundObjectRef")
    if ref is None:
        return {}
    version, kind, name, uid = (ref.get(field) or "" for field in ("apiVersion", "kind", "name", "uid"))
    group, _, bare = version.rpartition("/")
    resource = _BINDABLE.get(kind) if not group else None
    if resource is None:
        raise errors.bad_request(f"cannot bind token to object of type {group}/{bare}, Kind={kind}")
    if not name:
        raise errors.bad_request("Name parameter required.")
    bound = registry.get(resource, ObjectKey(account["metadata"]["namespace"] if resource.namespaced else "", name))
    if bound is None:
        raise errors.not_found(resource, name)
    bindings = _bind(registry, resource, bound, account["metadata"]["name"])
    if uid and uid != uid_of(bound):
        message = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict(Resource("", "v1", kind, kind), name, message)
    return bindings


_BINDABLE = {"Pod": PODS, "Node": NODES, "Secret": SECRETS}


def _bind(registry: Registry, resource: Resource, bound: Object, account_name: str) -> BoundObjects:
    if resource is not PODS:
        return {resource.kind.lower(): bound}
    spec = bound.get("spec") or {}
    if spec.get("serviceAccountName") != account_name:
        raise errors.bad_request(
            f"cannot bind token for serviceaccount {errors.quote(account_name)} to pod running with "
            "different serviceaccount name."
        )
    node_name = spec.get("nodeName")
    if not node_name:
        return {"pod": bound}
    node = registry.get(NODES, ObjectKey.cluster(node_name))
    return {"node": node or {"metadata": {"name": node_name}}, "pod": bound}
