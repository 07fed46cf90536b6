"""The exceptions and warnings by which the library rejects untrusted bytes; each means: unreadable."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.utils import CryptographyDeprecationWarning

from watchword.pki.errors import KeyRefused
from watchword.pki.x509 import x509

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
    """Treat what the library only warns about (a serial number of zero, for example) as a refusal."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        yield
