"""The error of authentication.

CredentialRefused         a credential was sent and is not valid
"""

from __future__ import annotations


class CredentialRefused(Exception):
    """A credential was sent and is not valid; the message may be shown, and never contains the credential."""
