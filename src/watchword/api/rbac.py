"""A right of one of our processes with its reason, from which roles and the page about rights are rendered."""

from collections.abc import Sequence

from msgspec import Struct

from watchword.api.meta import Object


class RbacRule(Struct, frozen=True):
    """One rule and why it is there."""

    why: str
    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...] = ()

    @property
    def rule(self) -> Object:
        row: Object = {"apiGroups": [self.group], "resources": list(self.resources), "verbs": list(self.verbs)}
        return {**row, "resourceNames": list(self.names)} if self.names else row


def rules_of(rights: Sequence[RbacRule]) -> list[Object]:
    return [right.rule for right in rights]
