"""`cryptography.x509`, imported without compiling its parser of names as text, which is not used here."""

from __future__ import annotations

from watchword.api.lazy_patterns import lazy_patterns

with lazy_patterns():
    from cryptography import x509

__all__ = ["x509"]
