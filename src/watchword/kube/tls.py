"""TLS contexts from PEM in memory: one per trust and client certificate, reused."""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from watchword.api.sensitive import HiddenFields, Sensitive
from watchword.kube.errors import ConfigError

CONTEXT_CACHE_SIZE = 4


class ClientCertificate(Struct, frozen=True):
    """A certificate chain and its key, as PEM."""

    chain: bytes
    key: Sensitive[bytes]


class Trust(HiddenFields, frozen=True):
    """Which servers are trusted: those of a PEM bundle, of the system's roots (empty), or any (`insecure`)."""

    hidden = ("ca",)

    ca: bytes = b""
    insecure: bool = False


class ContextCache:
    """Caches the contexts of the latest few credentials, so that a rotation builds one new context."""

    def __init__(self) -> None:
        self._contexts: dict[tuple[Trust, ClientCertificate | None], ssl.SSLContext] = {}

    def get(self, trust: Trust, certificate: ClientCertificate | None) -> ssl.SSLContext:
        """Return the context for this trust and certificate; `ConfigError` when they are not usable."""
        wanted = (trust, certificate)
        context = self._contexts.get(wanted)
        if context is None:
            context = make_context(trust, certificate)
            self._contexts[wanted] = context
            if len(self._contexts) > CONTEXT_CACHE_SIZE:
                del self._contexts[next(iter(self._contexts))]
        return context


def make_context(trust: Trust, certificate: ClientCertificate | None) -> ssl.SSLContext:
    """Build a client context: TLS 1.2 or later, no common names, any certificate of the bundle is an anchor."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.hostname_checks_common_name = False
    context.set_alpn_protocols(["http/1.1"])
    if trust.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif trust.ca:
        # Kubernetes accepts a bundle that holds only an intermediate; OpenSSL needs a flag for that.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        _load_authorities(context, trust.ca)
    else:
        context.load_default_certs()
    if certificate is not None:
        _load_certificate(context, certificate)
    return context


def _load_authorities(context: ssl.SSLContext, bundle: bytes) -> None:
    try:
        context.load_verify_locations(cadata=bundle.decode("ascii", errors="replace").replace("\ufffd", "?"))
    except (ssl.SSLError, ValueError) as cause:
        raise ConfigError("the certificate authority bundle holds no usable PEM certificate") from cause


def _load_certificate(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    pem = certificate.chain.rstrip() + b"\n" + certificate.key.reveal()
    try:
        with _as_file(pem) as path:
            # A callback, so that an encrypted key is refused instead of prompting on the terminal.
            context.load_cert_chain(path, password=lambda: "")
    except (ssl.SSLError, ValueError, OSError) as cause:
        raise ConfigError(_describe_certificate_error(cause, certificate)) from cause


def _describe_certificate_error(cause: Exception, certificate: ClientCertificate) -> str:
    if getattr(cause, "reason", None) == "KEY_VALUES_MISMATCH":
        return "the client certificate and the client key do not belong together"
    if b"ENCRYPTED" in certificate.key.reveal():
        return "the client key is encrypted: give it without a passphrase"
    return "the client certificate or its key is not usable PEM"


@contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """Provide bytes under a file name for as long as OpenSSL needs one; on Linux they are never written to disk."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("watchword", os.MFD_CLOEXEC)
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        import tempfile

        with tempfile.NamedTemporaryFile() as file:  # created 0600
            file.write(data)
            file.flush()
            yield file.name
