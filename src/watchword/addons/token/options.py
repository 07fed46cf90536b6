"""What can be configured about add-ons' tokens."""

from __future__ import annotations

from datetime import timedelta

from watchword.credentials.driver_options import DriverOption, OptionType, Settings, Side

DEFAULT_LIFETIME = timedelta(days=365)
MIN_RECOMMENDED_LIFETIME = timedelta(hours=1)


def warn_of_short_lifetime(value: str) -> str:
    """Return why this lifetime is unwise; empty when it is not."""
    if timedelta(seconds=int(value)) >= MIN_RECOMMENDED_LIFETIME:
        return ""
    return f"add-on tokens of {value} seconds are meant for tests: use 3600 and more"


LIFETIME = DriverOption(
    flag="--addon-token-expiration-seconds",
    help="The life asked for add-ons' tokens; 0 means a year.",
    side=Side.CLUSTER,
    type=OptionType.NUMBER,
    paths=(("addOnKubeClientRegistrationDriver", "token", "expirationSeconds"),),
    warn=warn_of_short_lifetime,
)
OPTIONS = (LIFETIME,)


def token_lifetime(settings: Settings) -> timedelta:
    value = LIFETIME.read(settings)
    return timedelta(seconds=int(value)) if value else DEFAULT_LIFETIME
