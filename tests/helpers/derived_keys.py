"""Keys that are the same in every run; none of them guards anything."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec

from watchword.pki.keys import PrivateKey


def derived_key(number: int) -> PrivateKey:
    """Return the EC P-256 key of a number above 0."""
    return PrivateKey(ec.derive_private_key(number, ec.SECP256R1()))
