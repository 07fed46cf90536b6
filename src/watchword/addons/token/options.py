"""What can be configured about add-ons' tokens."""

from __future__ import annotations

from datetime import timedelta

from watchword.api.limits import LONGEST_TOKEN_LIFETIME, SHORTEST_TOKEN_LIFETIME
from watchword.api.validation import parse_seconds
from watchword.credentials.driver_options import DriverOption, OptionType, Settings, Side

DEFAULT_LIFETIME = timedelta(days=365)
MIN_RECOMMENDED_LIFETIME = timedelta(hours=1)


def validate_lifetime(value: str) -> str:
    """Return why tokens cannot have this lifetime; empty when they can."""
    lifetime = parse_seconds(value)
    if lifetime is not None and SHORTEST_TOKEN_LIFETIME <= lifetime <= LONGEST_TOKEN_LIFETIME:
        return ""
    longest = int(LONGEST_TOKEN_LIFETIME.total_seconds())
    return f"no token lives {value[:40]} seconds: set {LIFETIME.flag} to 0, or to a number from 600 to {longest}"


def warn_of_short_lifetime(value: str) -> str:
    """Return why this lifetime is unwise; empty when it is not."""
    lifetime = parse_seconds(value)
    if lifetime is None or lifetime >= MIN_RECOMMENDED_LIFETIME:
        return ""
    return f"add-on tokens of {value} seconds are meant for tests: use 3600 and more"


LIFETIME = DriverOption(
    flag="--addon-token-expiration-seconds",
    help="The life asked for add-ons' tokens; 0 means a year.",
    side=Side.CLUSTER,
    type=OptionType.NUMBER,
    paths=(("addOnKubeClientRegistrationDriver", "token", "expirationSeconds"),),
    validate=validate_lifetime,
    warn=warn_of_short_lifetime,
)
OPTIONS = (LIFETIME,)


def token_lifetime(settings: Settings) -> timedelta:
    value = LIFETIME.read(settings) or None
    return parse_seconds(value, longest=LONGEST_TOKEN_LIFETIME) or DEFAULT_LIFETIME
