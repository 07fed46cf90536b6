"""What can be configured about registration by certificate."""

from __future__ import annotations

from dataclasses import dataclass

from watchword.drivers.certificate_options import LIFETIME
from watchword.drivers.interface import HubContext
from watchword.drivers.options import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Side

USERS = DriverOption(
    flag="--auto-approved-csr-users",
    aliases=("--auto-approved-csr-identities", "--cluster-auto-approval-users"),
    help=f"Users whose first request is approved automatically, with {AUTO_APPROVAL}; separated by commas.",
    side=Side.HUB,
    type=OptionType.LIST,
    paths=(("autoApproveUsers",), (DRIVER_LIST, "csr", "autoApprovedIdentities")),
    gate=AUTO_APPROVAL,
)
GROUPS = DriverOption(
    flag="--auto-approved-csr-groups",
    help="The same for groups.",
    side=Side.HUB,
    type=OptionType.LIST,
    gate=AUTO_APPROVAL,
)
OPTIONS = (LIFETIME, USERS, GROUPS)


@dataclass(frozen=True, slots=True)
class AllowList:
    """The users whose first request is approved automatically."""

    enabled: bool = False  # the feature gate
    users: frozenset[str] = frozenset()
    groups: frozenset[str] = frozenset()

    @classmethod
    def read(cls, context: HubContext) -> AllowList:
        """Read the list from the settings of the hub."""
        users, groups = (frozenset(option.read_list(context.settings)) for option in (USERS, GROUPS))
        return cls(context.auto_approval, users, groups)

    def allows(self, user: str, groups: frozenset[str]) -> bool:
        """Whether a requester, as the API server authenticated it, is on the list."""
        return self.enabled and (user in self.users or bool(groups & self.groups))
