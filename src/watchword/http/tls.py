"""TLS of a server: client certificates are optional, and certificates change without a restart."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import TypeAlias

CurrentContext: TypeAlias = Callable[[], ssl.SSLContext]
HTTP_1_1 = "http/1.1"
_NO_CHECK_TIME = ssl.VerifyFlags(0x200000)  # X509_V_FLAG_NO_CHECK_TIME


def delegating_context(current: CurrentContext, protocol: str = HTTP_1_1) -> ssl.SSLContext:
    """Return a context that hands every handshake to the current one: certificates change without a restart."""
    front = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def choose(connection: ssl.SSLObject, _name: str | None, _front: ssl.SSLContext) -> None:
        connection.context = current()

    front.sni_callback = choose
    front.minimum_version = ssl.TLSVersion.TLSv1_2
    front.set_alpn_protocols([protocol])
    # OpenSSL decides about client certificates before the callback: request one here, check it later.
    front.verify_mode = ssl.CERT_OPTIONAL
    front.verify_flags |= _NO_CHECK_TIME
    return front


def serving_context(
    certificate_file: str, key_file: str, client_roots_pem: bytes, protocol: str = HTTP_1_1
) -> ssl.SSLContext:
    """Return a context with the serving certificate that accepts client certificates of the given CAs.

    A client without one may connect. Dates are checked by the authenticator, because an expired certificate is a
    refused identity (401) rather than a broken connection.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certificate_file, key_file)
    context.load_verify_locations(cadata=client_roots_pem.decode("ascii"))
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= _NO_CHECK_TIME
    context.set_alpn_protocols([protocol])
    return context
