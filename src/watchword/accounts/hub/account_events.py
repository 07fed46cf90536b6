"""Tells as Events what happens to the tokens of managed service accounts: issued, renewed, revoked."""

from __future__ import annotations

from msgspec import Struct, field

from watchword.api.accounts import read_token_validity
from watchword.api.credential_validity import CredentialValidity, format_validity
from watchword.api.meta import Object, ObjectKey, Resource, uid_of
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader


class AccountEventReconciler(Struct, frozen=True):
    """Reconciles ManagedServiceAccount of one group; what is seen first is no news."""

    reader: Reader
    events: EventRecorder
    kind: Resource
    seen: dict[ObjectKey, tuple[Object, CredentialValidity | None]] = field(default_factory=dict)

    async def reconcile(self, key: ObjectKey) -> Outcome:
        """Compare the token that is reported with the one reported before."""
        found, before = self.reader.get(self.kind, key), self.seen.pop(key, None)
        if found is not None:
            self.seen[key] = found, read_token_validity(found)
        if before is not None:
            self._tell(before, self.seen.get(key))
        return Done()

    def _tell(
        self, before: tuple[Object, CredentialValidity | None], now: tuple[Object, CredentialValidity | None] | None
    ) -> None:
        account, earlier = before
        name = ObjectKey.of(account)
        if now is None or uid_of(now[0]) != uid_of(account):
            self.events.normal(account, "AccountRevoked", f"account {name} is gone, and its tokens are refused")
            return
        current = now[1]
        if current is None or current == earlier:
            return
        said = format_validity(current)
        if earlier is None:
            self.events.normal(now[0], "AccountTokenIssued", f"account {name} has its first token, {said}")
        else:
            self.events.normal(now[0], "AccountTokenRenewed", f"the token of account {name} was renewed, {said}")
