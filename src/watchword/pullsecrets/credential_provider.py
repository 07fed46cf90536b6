"""A kubelet image credential provider: the pod's own token is the credential, and no Secret is needed."""

import fnmatch
import math
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import orjson

from watchword.api.meta import Object
from watchword.api.pull_secrets import USERNAME
from watchword.credentials.lifecycle import read_bound_token


class CredentialRequestRefused(Exception):
    """The request is not one that this provider answers; the message says what to configure."""


API_VERSION = "credentialprovider.kubelet.k8s.io/v1"
CONFIG_API_VERSION = "kubelet.config.k8s.io/v1"
MARGIN = timedelta(minutes=1)
"""The kubelet forgets a credential this long before its token expires."""


def answer_request(text: bytes, *, images: Sequence[str] = (), now: datetime) -> bytes:
    """Return the response to a request of the kubelet; `CredentialRequestRefused` when it cannot be answered.

    With `images`, only a registry that matches one of them is given the token.
    """
    request = _read_request(text)
    registry = request["image"].partition("/")[0]
    token = request.get("serviceAccountToken")
    if not isinstance(token, str) or not token:
        raise CredentialRequestRefused(
            "the request has no serviceAccountToken: configure tokenAttributes with requireServiceAccount, "
            "as `watchword credential-provider config` prints it"
        )
    if images and not any(matches_image(pattern, request["image"]) for pattern in images):
        raise CredentialRequestRefused(f"no configured image matches {registry}: name it with --image")
    facts = read_bound_token(token)
    if facts is None:
        raise CredentialRequestRefused("the serviceAccountToken is not a bound service account token")
    left = facts.expires_at - now - MARGIN
    response = {
        "apiVersion": API_VERSION,
        "kind": "CredentialProviderResponse",
        "cacheKeyType": "Registry",
        "cacheDuration": f"{max(0, math.floor(left.total_seconds()))}s",
        "auth": {registry: {"username": USERNAME, "password": token}},
    }
    return orjson.dumps(response)


def matches_image(pattern: str, image: str) -> bool:
    """Whether an image is selected by a pattern as the kubelet selects it.

    A star stands for one label of the host name; port and path, when the pattern has them, must be the image's.
    """
    wanted_host, _, wanted_path = pattern.partition("/")
    host, _, path = image.partition("/")
    wanted_name, _, wanted_port = wanted_host.partition(":")
    name, _, port = host.partition(":")
    wanted, labels = wanted_name.split("."), name.split(".")
    same_host = len(wanted) == len(labels) and all(map(fnmatch.fnmatchcase, labels, wanted))
    return same_host and wanted_port == port and path.startswith(wanted_path)


def render_provider_configuration(images: Sequence[str], audience: str, name: str) -> Object:
    provider = {
        "name": name,
        "apiVersion": API_VERSION,
        "matchImages": list(images),
        "defaultCacheDuration": "0s",
        "args": ["credential-provider", *(f"--image={image}" for image in images)],
        "tokenAttributes": {
            "serviceAccountTokenAudience": audience,
            "cacheType": "Token",
            "requireServiceAccount": True,
        },
    }
    return {"apiVersion": CONFIG_API_VERSION, "kind": "CredentialProviderConfig", "providers": [provider]}


def _read_request(text: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise CredentialRequestRefused("standard input is not JSON: the kubelet runs this command") from cause
    found = request if isinstance(request, dict) else {}
    known = (found.get("apiVersion"), found.get("kind")) == (API_VERSION, "CredentialProviderRequest")
    if not known or not isinstance(found.get("image"), str) or not found["image"]:
        raise CredentialRequestRefused(f"standard input is not a CredentialProviderRequest of {API_VERSION}")
    return found
