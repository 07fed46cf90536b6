"""OIDC discovery: how other systems verify ServiceAccount tokens of this control plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.api.meta import Object
from watchword.apiserver.errors import no_representation
from watchword.apiserver.model import Handler, HandlerRequest
from watchword.pki.jwt import algorithm_of, key_set_document
from watchword.pki.keys import PublicKey

CONFIGURATION_PATH = "/.well-known/openid-configuration"
KEY_SET_PATH = "/openid/v1/jwks"
KEY_SET = "application/jwk-set+json"

_CACHE = ("Cache-Control", "public, max-age=3600")


class IssuerDiscovery(Struct, frozen=True):
    """Serves the two documents; the keys are read each time, so that a rotation is visible immediately."""

    issuer: str
    key_set_url: str
    keys: Callable[[], tuple[PublicKey, ...]]

    async def configuration(self, _request: HandlerRequest) -> Response:
        """Respond with the provider metadata."""
        document: Object = {
            "issuer": self.issuer,
            "jwks_uri": self.key_set_url,
            "response_types_supported": ["id_token"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": sorted({algorithm_of(key) for key in self.keys()}),
        }
        return Response(200, (("Content-Type", "application/json"), _CACHE), orjson.dumps(document))

    async def key_set(self, request: HandlerRequest) -> Response:
        """Respond with the public keys; 406 when the client accepts no JWKS."""
        if not _accepts(request.header("accept"), KEY_SET):
            raise no_representation((KEY_SET,))
        body = orjson.dumps(key_set_document(self.keys()))
        return Response(200, (("Content-Type", KEY_SET), _CACHE), body)


def _accepts(accept: str, media: str) -> bool:
    named = {clause.partition(";")[0].strip().lower() for clause in accept.split(",") if clause.strip()}
    return not named or bool(named & {media, "*/*", "application/*"})


def discovery_handlers(discovery: IssuerDiscovery) -> Mapping[str, Handler]:
    """Return the handler for each path; none when the issuer is not one that can be discovered."""
    if not is_discoverable(discovery.issuer):
        return {}
    return {CONFIGURATION_PATH: discovery.configuration, KEY_SET_PATH: discovery.key_set}


def is_discoverable(issuer: str) -> bool:
    """Whether the issuer is an https URL without query or fragment."""
    return issuer.startswith("https://") and "?" not in issuer and "#" not in issuer
