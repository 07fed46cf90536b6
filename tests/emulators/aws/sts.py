"""STS: assumes roles as their trust policies allow, and says who a caller is."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from xml.etree.ElementTree import fromstring
from xml.sax.saxutils import escape

from msgspec import Struct
from tests.emulators.aws.iam_store import IamStore, StoredRole
from tests.emulators.aws.oidc import OidcProviders
from tests.emulators.aws.principals import AccessKey, AccessKeys, AssumedRole, Principal
from tests.emulators.aws.roles import Roles

from watchword.api.http import Request, Response
from watchword.api.sensitive import Sensitive
from watchword.runtime.clock import Clock

SESSION_LIFETIME = timedelta(hours=1)
NAMESPACE = "{https://sts.amazonaws.com/doc/2011-06-15/}"


class SecurityTokenService(Struct, frozen=True):
    """Issues the credentials of sessions, which moto makes, after checking what moto does not."""

    store: IamStore
    roles: Roles
    keys: AccessKeys
    providers: OidcProviders
    clock: Clock

    async def answer(self, request: Request, parameters: Mapping[str, str], principal: Principal) -> Response:
        """Answer a signed request."""
        if parameters.get("Action") == "GetCallerIdentity":
            return _caller_identity(principal)
        if parameters.get("Action") == "AssumeRole":
            role = self.roles.assume(principal, parameters.get("RoleArn", ""))
            return self._start_session(request, role, parameters)
        return self.store.answer(request, principal.account)

    async def assume_with_token(self, request: Request, parameters: Mapping[str, str]) -> Response:
        """Answer AssumeRoleWithWebIdentity, which is not signed: its token is the proof."""
        arn = parameters.get("RoleArn", "")
        account = (arn.split(":") + [""] * 5)[4]
        provider, claims = await self.providers.verify(
            account, parameters.get("WebIdentityToken", ""), self.clock.now()
        )
        role = self.roles.assume_with_token(provider, claims, arn)
        return self._start_session(request, role, parameters)

    def _start_session(self, request: Request, role: StoredRole, parameters: Mapping[str, str]) -> Response:
        _, partition, _, _, account, path = role.arn.split(":")
        response = self.store.answer(request, account)
        credentials = next(fromstring(response.body).iter(f"{NAMESPACE}Credentials"))
        name = path.rpartition("/")[2]
        session = f"arn:{partition}:sts::{account}:assumed-role/{name}/{parameters.get('RoleSessionName', '')}"
        self.keys.add(
            AccessKey(
                credentials.findtext(f"{NAMESPACE}AccessKeyId", ""),
                Sensitive(credentials.findtext(f"{NAMESPACE}SecretAccessKey", "")),
                Principal(account, session, partition, AssumedRole(role.arn, role.id, role.tags)),
                Sensitive(credentials.findtext(f"{NAMESPACE}SessionToken", "")),
                self.clock.now() + SESSION_LIFETIME,
            )
        )
        return response


def _caller_identity(principal: Principal) -> Response:
    user = principal.role.id if principal.role is not None else "AIDAADMINISTRATOR"
    text = (
        '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
        f"<Arn>{escape(principal.arn)}</Arn><UserId>{user}</UserId><Account>{principal.account}</Account>"
        "</GetCallerIdentityResult><ResponseMetadata><RequestId>00000000</RequestId></ResponseMetadata>"
        "</GetCallerIdentityResponse>"
    )
    return Response(200, (("Content-Type", "text/xml"),), text.encode())
