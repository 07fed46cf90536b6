"""What can be configured about registration by certificate."""

from __future__ import annotations

from watchword.credentials.certificates.agent import LIFETIME
from watchword.registration.allow_list import AllowList
from watchword.registration.interface import HubContext
from watchword.registration.options import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Side

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


def read_allow_list(context: HubContext) -> AllowList:
    """Return whose first request is approved automatically, from the settings of the hub."""
    users, groups = (frozenset(option.read_list(context.settings)) for option in (USERS, GROUPS))
    return AllowList(context.auto_approval, users, groups)
