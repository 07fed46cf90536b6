"""What can be configured about registration by certificate."""

from __future__ import annotations

from datetime import timedelta

from watchword.drivers.certificate_hub import AllowList
from watchword.drivers.interface import HubContext
from watchword.drivers.options import AUTO_APPROVAL, DRIVER_LIST, DriverOption, OptionType, Settings, Side

MIN_LIFETIME = timedelta(hours=1)


def validate_lifetime(value: str) -> str:
    """Return why certificates cannot have this lifetime; empty when they can."""
    if timedelta(seconds=int(value)) >= MIN_LIFETIME:
        return ""
    return f"a certificate lives at least an hour: set {LIFETIME.flag} to 0 or 3600 and more"


LIFETIME = DriverOption(
    flag="--client-cert-expiration-seconds",
    help="The requested lifetime of the certificate; 0 leaves it to the hub.",
    side=Side.CLUSTER,
    type=OptionType.NUMBER,
    paths=(("clientCertExpirationSeconds",),),
    validate=validate_lifetime,
)
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


def certificate_lifetime(settings: Settings) -> timedelta | None:
    """Return the lifetime to request, None to leave it to the hub."""
    value = LIFETIME.read(settings)
    return timedelta(seconds=int(value)) if value else None


def read_allow_list(context: HubContext) -> AllowList:
    """Return whose first request is approved automatically, from the settings of the hub."""
    users, groups = (frozenset(option.read_list(context.settings)) for option in (USERS, GROUPS))
    return AllowList(context.auto_approval, users, groups)
