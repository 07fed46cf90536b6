"""What a driver refuses.

DriverError
├── UnknownDriver    no driver of that name serves that purpose
└── CertificateRequestRefused     a request that no honest agent would send
"""

from __future__ import annotations


class DriverError(Exception):
    """Base of the errors of this package."""


class UnknownDriver(DriverError):
    """No driver of that name serves that purpose; the message lists those that do."""


class CertificateRequestRefused(DriverError):
    """The request is not one that this driver would ever approve; the message says why."""
