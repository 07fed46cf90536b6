"""The errors of keys, certificates and signatures.

PkiError
├── KeyRefused            not a private or public key that is read here, or too weak
├── InvalidCsr        not a certificate signing request that is read here
├── CertificateRefused    not a certificate or bundle that is read here
├── ChainRefused          a certificate that no trusted authority vouches for, here and now
├── AuthorityExpired      the signer's own certificate is over
├── PinRefused            not a pin of the form sha256:<64 hexadecimal digits>
├── DecryptionFailed      encrypted data that no key opens
└── InvalidJwt          a JWT whose form, signature or algorithm is not accepted
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.utils import CryptographyDeprecationWarning


class PkiError(Exception):
    """Base of the errors of this package."""


class KeyRefused(PkiError):
    """The bytes hold no usable key."""


class InvalidCsr(PkiError):
    """The bytes hold no usable certificate signing request."""


class CertificateRefused(PkiError):
    """The bytes hold no usable certificate."""


class ChainRefused(PkiError):
    """No trusted authority signed the certificate, or it is not valid at that instant."""


class AuthorityExpired(PkiError):
    """The authority can no longer sign: its own certificate has expired."""


class PinRefused(PkiError):
    """The text is not a public key pin."""


class DecryptionFailed(PkiError):
    """No key opens the data, or it was changed."""


class InvalidJwt(PkiError):
    """The JWT is not accepted; the message never holds the token."""


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
