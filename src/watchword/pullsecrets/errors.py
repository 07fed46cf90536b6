"""What can go wrong with pull secrets outside of a controller.

PullSecretError
└── CredentialRequestRefused   a request of the kubelet that cannot be answered
"""

from __future__ import annotations


class PullSecretError(Exception):
    """Base of everything this package raises."""


class CredentialRequestRefused(PullSecretError):
    """The request is not one that this provider answers; the message says what to configure."""
