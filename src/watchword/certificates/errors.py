"""What is refused about certificates.

CertificateError
└── CertificateRequestRefused     a request that no honest agent would send
"""

from __future__ import annotations


class CertificateError(Exception):
    """Base of everything this package raises."""


class CertificateRequestRefused(CertificateError):
    """The request is not one that the hub would ever approve; the message says why."""
