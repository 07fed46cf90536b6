"""A kind of credential: how it is reported, and what is known of one that is held."""

from collections.abc import Iterable

from msgspec import Struct

from watchword.api.conditions import Condition, find_condition
from watchword.api.credential_report import CredentialValidity
from watchword.api.meta import Object


class CredentialStatus(Struct, frozen=True):
    """What is known of one credential."""

    good: bool
    reason: str
    message: str


class CredentialCondition(Struct, frozen=True):
    """One condition with which an agent reports a credential."""

    type: str
    reason: str  # while the credential is good
    failed_reason: str = ""  # while it is not; empty: the driver's own reason


class CredentialKind(Struct, frozen=True, kw_only=True):
    """How a driver's credential is reported: conditions on the hub, a row of the inventory."""

    name: str  # as the inventory calls it
    conditions: tuple[CredentialCondition, ...]  # all are written; the first that is found is read
    consequence: str  # what happens when it expires; {cluster} and {holder} are filled in
    renewal: str = ""  # what renews it when the agent does not, as a note for the inventory

    @property
    def condition_types(self) -> tuple[str, ...]:
        return tuple(condition.type for condition in self.conditions)

    def find_condition(self, obj: Object) -> Condition | None:
        """Return what is reported about the credential, None when nothing is."""
        found = (find_condition(obj, type_) for type_ in self.condition_types)
        return next((condition for condition in found if condition is not None), None)

    def report(self, statuses: Iterable[CredentialStatus]) -> tuple[Condition, ...]:
        known = list(statuses)
        bad = [status for status in known if not status.good]
        message = "; ".join(status.message for status in (*bad, *(status for status in known if status.good)))
        if bad:
            reason = bad[0].reason
            return tuple(Condition.false(each.type, each.failed_reason or reason, message) for each in self.conditions)
        return tuple(Condition.true(each.type, each.reason, message) for each in self.conditions)


class HeldCredential(Struct, frozen=True):
    """The facts about the credential in a Secret."""

    subject: str  # empty when unknown
    validity: CredentialValidity
    key: str = ""  # the thumbprint of its public key; empty when it has none
