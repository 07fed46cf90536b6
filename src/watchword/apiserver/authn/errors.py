"""What can go wrong while somebody proves who they are.

CredentialRefused         a credential was shown and is not good
"""

from __future__ import annotations


class CredentialRefused(Exception):
    """A credential was shown and is not good; the message may be told to reviewers, never the credential."""
