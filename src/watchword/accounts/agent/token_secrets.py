"""The tokens of accounts at the hub: which one a Secret holds, what becomes of it, and how another one is written.

A Secret that the account does not own is never written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct, field

from watchword.api.accounts import Account, AccountSecret, content_digest, is_owned_by
from watchword.api.meta import Object, ObjectKey, annotations_of, owner_reference, uid_of
from watchword.api.names import Annotation, Label, service_account_user
from watchword.api.resources import SECRETS
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.credentials.credential_secret import encode_data
from watchword.credentials.evidence import TokenClientFactory, TokenEvidence
from watchword.credentials.lifecycle import (
    BoundToken,
    Decision,
    Held,
    Obtain,
    Reason,
    Subject,
    Wanted,
    decide,
    read_bound_token,
)
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.endpoint import Endpoint, read
from watchword.kube.errors import AlreadyExists, ConfigError, Conflict, Forbidden, NotFound, Unauthorized
from watchword.kube.tokens import IssuedToken
from watchword.runtime.diff import apply_merge_patch
from watchword.runtime.errors import NameConflict


class TokenSecrets(Struct):
    """The Secrets of one cluster's accounts at the hub; remembers what they hold, and never the tokens."""

    secrets: HubSecrets
    endpoint: Endpoint  # of the cluster's API server
    connect: TokenClientFactory  # how a token is shown to the cluster
    evidence: TokenEvidence = field(default_factory=TokenEvidence)  # of the cluster
    _held: dict[ObjectKey, HeldToken] = field(default_factory=dict)
    _conflicts: dict[ObjectKey, datetime] = field(default_factory=dict)  # since when a Secret is in the way

    @property
    def ca(self) -> bytes:
        return read(self.endpoint.ca)

    def decide(self, account: Account, local: LocalAccount, held: HeldToken | None, *, now: datetime) -> Decision:
        return decide_token(account, local, held, self.ca, self.evidence, now=now)

    def known_accounts(self) -> list[ObjectKey]:
        return list(self._held)

    async def held(self, account: Account, declared: Sequence[Object], local: LocalAccount) -> HeldToken | None:
        """Return what the hub holds; the Secret is read when a token was reported, unless it is the known one.

        A token that no agent of ours recorded is recorded now, when it is what the account asks for. Where the status
        names another instant than that of the known token, the hub was restored from a backup, with an earlier token.
        """
        known = self._held.get(account.key)
        reported = [ref for obj in declared if (ref := (obj.get("status") or {}).get("tokenSecretRef"))]
        issued = None if known is None else rfc3339(known.token.issued_at)
        if all(ref.get("lastRefreshTimestamp") == issued for ref in reported):
            return known
        self._held.pop(account.key, None)
        found = await self.secrets.find(account.key)
        if found is None or not is_owned_by(found, declared):
            return None
        secret = AccountSecret.read(found)
        return self._remember(account, HeldToken.read(secret) or await self._adopt(account, declared, secret, local))

    async def _adopt(
        self, account: Account, declared: Sequence[Object], secret: AccountSecret, local: LocalAccount
    ) -> HeldToken | None:
        found = HeldToken.read_claims(secret)
        if found is None or not is_adoptable(account, found, local, self.ca):
            return None
        if not await is_accepted(self.connect, secret.token, local):
            return None
        record = self._record(account, IssuedToken(secret.token, found.token.expires_at), found.token.issued_at)
        kept = (Annotation.ROTATION_REQUEST, Annotation.TOKEN_SERVER if secret.server else "")
        notes = {name: text for name, text in record.items() if name not in kept}
        metadata = {"annotations": notes, "ownerReferences": [owner_reference(obj) for obj in declared]}
        stored = await self.secrets.change(account.key, found.secret_uid, {"metadata": metadata})
        return HeldToken.read(AccountSecret.read(stored)) if stored is not None else None

    def _remember(self, account: Account, known: HeldToken | None) -> HeldToken | None:
        if known is not None:
            self._held[account.key] = known
            self._conflicts.pop(account.key, None)
        return known

    async def write(
        self, account: Account, declared: Sequence[Object], issued: IssuedToken, now: datetime
    ) -> HeldToken | None:
        """Store a token; raises `NameConflict` when a Secret of that name belongs to something else."""
        wanted = SECRETS.manifest(
            account.key,
            metadata={
                "labels": {Label.MANAGED_ACCOUNT: "true"},
                "annotations": self._record(account, issued, now),
                "ownerReferences": [owner_reference(obj) for obj in declared],
            },
            type="Opaque",
            data=encode_data({"token": issued.token.reveal().encode(), "ca.crt": self.ca}),
        )
        held = self._held.get(account.key)
        stored = await self._replace(held.secret_uid, wanted) if held is not None else None
        if stored is None:
            try:
                stored = await self.secrets.client.create(SECRETS, wanted)
            except AlreadyExists:
                stored = await self._take_over(wanted, declared)
        return self._remember(account, HeldToken.read(AccountSecret.read(stored)))

    def account_uid(self, key: ObjectKey) -> str:
        """Return the UID of the ServiceAccount whose token the hub holds; empty when it is not known."""
        held = self._held.get(key)
        return "" if held is None else held.token.account_uid

    def conflict_since(self, key: ObjectKey, now: datetime) -> datetime:
        """Return since when, as far as this agent has seen, a Secret that it may not write is in the way."""
        return self._conflicts.setdefault(key, now)

    def forget(self, key: ObjectKey) -> None:
        self._held.pop(key, None)
        self._conflicts.pop(key, None)

    async def _replace(self, uid: str, wanted: Object) -> Object | None:
        notes = {**wanted["metadata"]["annotations"]}
        server = {Annotation.TOKEN_SERVER: notes.pop(Annotation.TOKEN_SERVER)}
        patch = {"metadata": {**wanted["metadata"], "annotations": notes}, "data": {**wanted["data"]}}
        stored = await self.secrets.change(ObjectKey.of(wanted), uid, patch)
        if stored is None or Annotation.TOKEN_SERVER in annotations_of(stored):
            return stored
        # Said only where the Secret does not say it: the hub may know better.
        return await self.secrets.change(ObjectKey.of(wanted), uid, {"metadata": {"annotations": server}})

    async def _take_over(self, wanted: Object, declared: Sequence[Object]) -> Object:
        key = ObjectKey.of(wanted)
        found = await self.secrets.find(key)
        if found is None or not is_owned_by(found, declared):
            raise NameConflict(
                f"Secret {key} exists on the hub and does not belong to the account: rename or remove it"
            )
        stored = await self._replace(uid_of(found), wanted)
        if stored is None:
            raise NameConflict(f"Secret {key} on the hub was replaced in this moment: it is looked at again")
        return stored

    def _record(self, account: Account, issued: IssuedToken, now: datetime) -> dict[str, str]:
        return {
            Annotation.TOKEN_ISSUED: rfc3339(now),
            Annotation.TOKEN_EXPIRY: rfc3339(issued.expires_at),
            Annotation.TOKEN_REQUEST: account.request,
            Annotation.TOKEN_DIGEST: content_digest(issued.token, self.ca),
            Annotation.ROTATION_REQUEST: account.rotation_request,
            Annotation.TOKEN_SERVER: self.endpoint.server,
        }


class HubSecrets(Struct, frozen=True):
    """The Secrets of one cluster's accounts.

    The agent may read a Secret only by name, and only once the account owns it: a refusal means that there is none.
    """

    client: Client

    async def find(self, key: ObjectKey) -> Object | None:
        """Return a Secret, None when there is none that the agent may read."""
        try:
            return await self.client.find(SECRETS, key)
        except Forbidden:
            return None

    async def change(self, key: ObjectKey, uid: str, patch: Object) -> Object | None:
        """Change a Secret and return it, None when it is another one by now or none that the agent may change."""
        patch = {**patch, "metadata": {**patch["metadata"], "uid": uid}}
        try:
            return await self.client.patch(SECRETS, key, patch)
        except (NotFound, Conflict):
            return None
        except Forbidden:
            return await self._update(key, uid, patch)

    async def _update(self, key: ObjectKey, uid: str, patch: Object) -> Object | None:
        """Replace a Secret, and what was added to it.

        A manager of Open Cluster Management grants `update`, and not `patch`; ours refuses keys that it does not know.
        """
        found = await self.find(key)
        if found is None or uid_of(found) != uid:
            return None
        replaced = {"data": patch["data"]} if "data" in patch else {}
        try:
            return await self.client.update(SECRETS, {**apply_merge_patch(found, patch), **replaced})
        except (NotFound, Forbidden, Conflict):
            return None


async def is_accepted(connect: TokenClientFactory, token: Sensitive[str], account: LocalAccount) -> bool:
    """Show a token to the cluster: the agent may not review tokens, and every token may ask whose it is."""
    try:
        client = connect(token)
    except ConfigError:  # no server would accept such a text
        return False
    try:
        found = await who_am_i(client)
    except (Unauthorized, Forbidden):
        return False
    finally:
        await client.close()
    return (found.username, found.uid) == (account.user, account.uid)


def is_adoptable(account: Account, held: HeldToken, local: LocalAccount, ca: bytes) -> bool:
    """Whether a token that was requested elsewhere is one that the account asks for, if the cluster accepts it.

    Servers may shorten a life, so a shorter one than requested is accepted.
    """
    fits = held.token.account_uid == local.uid and held.ca_digest == digest(ca)
    return fits and not account.audiences and held.token.lifetime <= account.validity


class LocalAccount(Struct, frozen=True):
    """The ServiceAccount of an account on the cluster."""

    key: ObjectKey
    uid: str

    @property
    def user(self) -> str:
        return service_account_user(self.key.namespace, self.key.name)


class HeldToken(Struct, frozen=True):
    """What is known of the token that the hub holds; the token itself is not kept."""

    secret_uid: str
    token: BoundToken
    request: str
    ca_digest: str
    rotation_request: str

    @classmethod
    def read(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what a Secret says, None when it holds no token that was recorded by an agent."""
        return cls.read_claims(secret) if secret.is_intact else None

    @classmethod
    def read_claims(cls, secret: AccountSecret) -> HeldToken | None:
        """Return what the token itself says, unverified: what is recorded beside it may be about another one."""
        token = read_bound_token(secret.token.reveal())
        if token is None:
            return None
        return cls(
            secret_uid=uid_of(secret.object),
            token=token,
            request=secret.annotations.get(Annotation.TOKEN_REQUEST, ""),
            ca_digest=digest(secret.ca),
            rotation_request=secret.annotations.get(Annotation.ROTATION_REQUEST, ""),
        )


def decide_token(
    account: Account, local: LocalAccount, held: HeldToken | None, ca: bytes, evidence: TokenEvidence, *, now: datetime
) -> Decision:
    """Decide from the present CA of the cluster's API server and its evidence about tokens."""
    if held is None:
        return Obtain(Reason.MISSING)
    wanted = Wanted(
        Subject(local.user, account_uid=local.uid),
        seed=account.uid,
        request=account.request,
        place=digest(ca),
        rotation=account.rotation_request,
        renews=account.rotates,
    )
    token = held.token
    found = Held(
        Subject(token.subject, account_uid=token.account_uid),
        token.issued_at,
        token.expires_at,
        request=held.request,
        place=held.ca_digest,
        rotation=held.rotation_request,
    )
    return decide(wanted, found, evidence.about(token, seed=account.uid, requested=account.validity), now=now)


def digest(ca: bytes) -> str:
    return hashlib.sha256(ca).hexdigest()
