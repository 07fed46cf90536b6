"""The errors of certificates.

CertificateError
└── CertificateRequestRefused     a request that no unmodified agent would send
"""

from __future__ import annotations


class CertificateError(Exception):
    """Base of everything this package raises."""


class CertificateRequestRefused(CertificateError):
    """The request is one that the hub never approves; the message contains the reason."""
