"""Plans the revocation of a bootstrap token."""

from __future__ import annotations

from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke.refusals import AbsenceProbe, RefusalProbe, TokenReviewProbe
from watchword.admin.revoke.revocation import Revocation, RevocationContext, RevocationTarget
from watchword.api.bootstrap import token_secret_key
from watchword.api.meta import Object, uid_of
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.discovery.errors import BootstrapTokenRefused, DiscoveryReason
from watchword.discovery.token_secret import TokenRecord, TokenUsage, read_token_secret
from watchword.discovery.token_store import TokenStore
from watchword.discovery.tokens import parse_token_id
from watchword.kube.client import Client

CONSEQUENCE = "clusters that joined by it keep their own credentials: `watchword clusters` lists them"


async def plan_join_token(context: RevocationContext, name: str) -> Revocation:
    """Plan to delete a token, named by its id or whole."""
    client, token_id = context.client, parse_token_id(name)
    key = token_secret_key(token_id)
    secret = await client.find(SECRETS, key)
    if secret is None:
        raise NotFoundOnHub(f"there is no token with id {token_id}: `watchword token list` shows all")

    async def act() -> bool:
        try:
            await TokenStore(client).delete(token_id)
        except BootstrapTokenRefused as refusal:
            if refusal.reason is not DiscoveryReason.TOKEN_NOT_FOUND:
                raise
            return False
        return True

    return Revocation(
        target=RevocationTarget("token", token_id),
        object=_without_data(secret),
        actions=(f"delete Secret {key}",),
        consequence=CONSEQUENCE,
        act=act,
        probes=(_probe(client, secret, token_id),),
    )


def _probe(client: Client, secret: Object, token_id: str) -> RefusalProbe:
    """Return a review of the token where it authenticates, else the absence of its Secret."""
    record, holder = read_token_secret(secret), f"token {token_id}"
    if isinstance(record, TokenRecord) and TokenUsage.AUTHENTICATION in record.usages:
        return TokenReviewProbe(holder, client, Sensitive(record.token.reveal()))
    return AbsenceProbe(holder, client, SECRETS, token_secret_key(token_id), uid_of(secret))


def _without_data(secret: Object) -> Object:
    return {name: value for name, value in secret.items() if name != "data"}
