"""What the API server of an EKS cluster asks about a bearer token: a presigned GetCallerIdentity."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from msgspec import Struct
from tests.emulators.aws.eks import EksClusterState
from tests.emulators.aws.errors import AwsFault
from tests.emulators.aws.principals import AccessKeys, Principal
from tests.emulators.aws.signatures import PRESIGNED_LIFETIME, read_signature

from watchword.api.http import Request
from watchword.api.meta import Object
from watchword.api.yaml import YamlError, load
from watchword.runtime.clock import Clock

PREFIX = "k8s-aws-v1."
CLUSTER_HEADER = "x-k8s-aws-id"
LONGEST_TOKEN = 16 * 1024
PARAMETERS = frozenset(
    {
        "Action",
        "Version",
        "X-Amz-Algorithm",
        "X-Amz-Credential",
        "X-Amz-Date",
        "X-Amz-Expires",
        "X-Amz-SignedHeaders",
        "X-Amz-Security-Token",
        "X-Amz-Signature",
    }
)
STS_HOST = re.compile(r"sts(\.[a-z0-9-]+)?\.amazonaws\.com(\.cn)?", re.ASCII)

AwsAuthReader = Callable[[], Awaitable[str]]
"""Returns `mapRoles` of the ConfigMap `aws-auth` of a cluster, empty when there is none."""


class TokenReviewWebhook(Struct, frozen=True):
    """Answers TokenReviews of one cluster."""

    cluster: EksClusterState
    keys: AccessKeys
    clock: Clock
    endpoint: str  # of the emulator: the one STS host beside the public ones
    read_aws_auth: AwsAuthReader

    async def review(self, question: Object) -> Object:
        """Return the TokenReview with its status: the user, or why there is none."""
        token = str((question.get("spec") or {}).get("token") or "")
        try:
            principal = self._identify(token)
            user = await self._map(principal)
        except AwsFault as fault:
            status: Object = {"authenticated": False, "error": f"{fault.code}: {fault}"}
        else:
            status = {"authenticated": True, "user": user} if user else {"authenticated": False}
        return {"apiVersion": question.get("apiVersion"), "kind": "TokenReview", "status": status}

    def _identify(self, token: str) -> Principal:
        request = presigned_request(token, self.cluster.name)
        if request.header("host") != urlsplit(self.endpoint).netloc and not STS_HOST.fullmatch(request.header("host")):
            raise AwsFault("InvalidToken", "the token is signed for a host that is not STS")
        found = read_signature(request)
        if found is None or found.service != "sts" or CLUSTER_HEADER not in found.signed_headers:
            raise AwsFault("InvalidToken", f"the token does not sign {CLUSTER_HEADER}")
        return self.keys.authenticate(request, found, now=self.clock.now(), lifetime=PRESIGNED_LIFETIME)

    async def _map(self, principal: Principal) -> Object:
        if principal.role is None:
            return {}
        entry = self.cluster.entries.get(principal.role.arn) if self.cluster.has_entries else None
        if entry is not None:
            return _user(str(entry["username"]), list(entry["kubernetesGroups"]), principal)
        if not self.cluster.reads_config_map:
            return {}
        rows = _mapped_roles(await self.read_aws_auth())
        row = next((row for row in rows if row.get("rolearn") == principal.role.arn), None)
        return _user(str(row.get("username", "")), list(row.get("groups") or []), principal) if row else {}


def presigned_request(token: str, cluster: str) -> Request:
    """Return the request that a token signs, as sent to the STS of a cluster; `AwsFault` when it is another one."""
    if not token.startswith(PREFIX) or len(token) > LONGEST_TOKEN:
        raise AwsFault("InvalidToken", f"the token does not begin with {PREFIX}")
    encoded = token.removeprefix(PREFIX)
    try:
        url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode("ascii"))
        query = parse_qsl(url.query, keep_blank_values=True, strict_parsing=True)
    except (binascii.Error, ValueError) as cause:
        raise AwsFault("InvalidToken", "the token is not a presigned URL") from cause
    names = [name for name, _ in query]
    if url.path != "/" or set(names) - PARAMETERS or len(names) != len(set(names)) or url.username or url.fragment:
        raise AwsFault("InvalidToken", "the token is not a presigned GetCallerIdentity")
    request = Request("GET", url.path, tuple(query), (("host", url.netloc), (CLUSTER_HEADER, cluster)))
    if request.parameter("Action") != "GetCallerIdentity":
        raise AwsFault("InvalidToken", "the token is not a presigned GetCallerIdentity")
    return request


def _mapped_roles(text: str) -> list[Any]:
    try:
        rows = load(text) if text.strip() else []
    except YamlError:
        return []
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _user(name: str, groups: list[str], principal: Principal) -> Object:
    filled = name.replace("{{SessionName}}", principal.session).replace("{{AccountID}}", principal.account)
    extra = {"arn": [principal.arn], "canonicalArn": [principal.role.arn] if principal.role else []}
    identity = f"aws-iam-authenticator:{principal.account}:{principal.role.id if principal.role else ''}"
    return {"username": filled, "uid": identity, "groups": groups, "extra": extra}
