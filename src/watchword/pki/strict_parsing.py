"""What the library may say about bytes from a stranger, all of which means: unreadable."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.utils import CryptographyDeprecationWarning

from watchword.pki.errors import KeyRefused

PARSE_ERRORS = (
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    KeyRefused,
    x509.DuplicateExtension,
    x509.InvalidVersion,
    CryptographyDeprecationWarning,
)


@contextmanager
def refusing_deprecated_encodings() -> Iterator[None]:
    """Take what the library only warns of (a serial number of zero, say) as a reason to refuse."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        yield
