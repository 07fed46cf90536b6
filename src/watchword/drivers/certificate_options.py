"""What can be configured about the certificates that drivers request."""

from __future__ import annotations

from datetime import timedelta

from watchword.drivers.options import DriverOption, OptionType, Settings, Side

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


def certificate_lifetime(settings: Settings) -> timedelta | None:
    """Return the lifetime to request, None to leave it to the hub."""
    value = LIFETIME.read(settings)
    return timedelta(seconds=int(value)) if value else None
