"""Who may join without a person's approval."""

from __future__ import annotations

from msgspec import Struct


class AllowList(Struct, frozen=True):
    """The users and groups whose first request is approved automatically."""

    enabled: bool = False  # the feature gate
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    def allows(self, user: str, groups: frozenset[str]) -> bool:
        """Whether a requester, as it was authenticated, is on the list."""
        return self.enabled and (user in self.users or bool(groups & self.groups))
