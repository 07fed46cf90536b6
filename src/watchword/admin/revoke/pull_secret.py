"""Plans the revocation of the image pull secrets of a ServiceAccount."""

import base64
import binascii
import contextlib
from collections.abc import Iterable

from watchword.admin.accept import HubAdmin
from watchword.admin.errors import NotFoundOnHub
from watchword.admin.revoke import revocation
from watchword.api.meta import Object, ObjectKey, annotations_of, uid_of
from watchword.api.pull_secrets import ANNOTATION_ACCOUNT_NAME, DOCKERCFG_KEY, SERVICE_ACCOUNT_TOKEN_TYPE
from watchword.api.resources import SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.client import Client
from watchword.kube.errors import Conflict, NotFound
from watchword.pullsecrets.account_plan import belongs_to
from watchword.pullsecrets.inventory import read_pull_secrets
from watchword.pullsecrets.pull_secret import Credentials, PullSecret, find_dockercfg_token

FORM = "NAMESPACE/SERVICEACCOUNT"
CONSEQUENCE = "the controllers of pull secrets issue a new secret with a new token; the old token stays refused"


class StoredToken(HiddenFields, frozen=True):
    """A Secret on which a token depends, and the token where it can be read."""

    hidden = ("secret",)

    secret: Object
    token: Sensitive[str] | None
    audiences: tuple[str, ...] = ()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey.of(self.secret)

    def probe(self, client: Client) -> revocation.RefusalProbe:
        """Return a review of the token, else the absence of the Secret."""
        if self.token is None:
            return revocation.AbsenceProbe(f"Secret {self.key}", client, SECRETS, self.key, uid_of(self.secret))
        return revocation.TokenReviewProbe(f"token of Secret {self.key}", client, self.token, self.audiences)


async def plan_pull_secret(admin: HubAdmin, name: str) -> revocation.Revocation:
    client, key = admin.client, revocation.parse_key(name, FORM)
    account = await client.find(SERVICE_ACCOUNTS, key)
    if account is None:
        raise NotFoundOnHub(f"there is no ServiceAccount {key.name} in namespace {key.namespace}: check the name")
    stored = [token for found in await find_pull_secrets(client, account) for token in await _tokens(client, found)]
    if not stored:
        raise NotFoundOnHub(
            f"ServiceAccount {key} has no pull secret: `watchword pull-secrets list -n {key.namespace}` lists all"
        )

    async def act() -> bool:
        deleted = [await _delete(client, token) for token in stored]
        return any(deleted)

    return revocation.Revocation(
        target=revocation.RevocationTarget("pull-secret", str(key)),
        object=account,
        actions=tuple(f"delete Secret {token.key}" for token in stored),
        consequence=CONSEQUENCE,
        act=act,
        probes=tuple(token.probe(client) for token in stored),
    )


async def find_pull_secrets(client: Client, account: Object) -> list[PullSecret]:
    found = await read_pull_secrets(client, namespace=ObjectKey.of(account).namespace)
    return [secret for secret in found if belongs_to(secret, account)]


async def _tokens(client: Client, secret: PullSecret) -> Iterable[StoredToken]:
    stored = await client.find(SECRETS, secret.key)
    if stored is None or uid_of(stored) != secret.uid:
        return ()
    if secret.is_legacy:
        return (*await _legacy_tokens(client, secret), StoredToken(stored, None))
    token = find_dockercfg_token(_decoded(stored, DOCKERCFG_KEY))
    audiences = secret.content.token.audiences if isinstance(secret.content, Credentials) else ()
    return (StoredToken(stored, token, audiences),)


async def _legacy_tokens(client: Client, secret: PullSecret) -> Iterable[StoredToken]:
    """Return the Secret of the long-lived token: without it the token is refused."""
    found = await client.find(SECRETS, ObjectKey(secret.key.namespace, secret.legacy_token))
    if found is None or found.get("type") != SERVICE_ACCOUNT_TOKEN_TYPE:
        return ()
    if annotations_of(found).get(ANNOTATION_ACCOUNT_NAME) != secret.account:
        return ()  # the annotation of a pull secret is its writer's word
    token = _decoded(found, "token").decode("ascii", errors="replace")
    return (StoredToken(found, Sensitive(token) if token else None),)


async def _delete(client: Client, token: StoredToken) -> bool:
    with contextlib.suppress(NotFound, Conflict):  # gone already, or another one has its name
        await client.delete(SECRETS, token.key, uid=uid_of(token.secret))
        return True
    return False


def _decoded(secret: Object, field: str) -> bytes:
    try:
        return base64.b64decode((secret.get("data") or {}).get(field, ""), validate=True)
    except (binascii.Error, ValueError):
        return b""
