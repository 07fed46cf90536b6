"""Decides whether a trusted authority signed a certificate, for one instant and one usage."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm

from watchword.pki.certificates import Certificate, extension_of
from watchword.pki.errors import ChainRefused
from watchword.pki.usages import Usage
from watchword.pki.x509 import x509

MAXIMUM_DEPTH = 6
_MAXIMUM_INTERMEDIATES = 16

# The extensions that are enforced below; any other critical extension makes the certificate refused.
_UNDERSTOOD = {
    x509.BasicConstraints.oid,
    x509.KeyUsage.oid,
    x509.ExtendedKeyUsage.oid,
    x509.SubjectAlternativeName.oid,
    x509.AuthorityKeyIdentifier.oid,
    x509.SubjectKeyIdentifier.oid,
}


def verify_chain(
    leaf: Certificate,
    roots: Sequence[Certificate],
    *,
    now: datetime,
    usage: Usage = Usage.CLIENT_AUTH,
    intermediates: Sequence[Certificate] = (),
) -> tuple[Certificate, ...]:
    """Return the chain from leaf to root, or raise `ChainRefused` with the reason.

    Names are not compared: a client certificate carries its identity in the subject and needs no SAN.
    """
    if len(intermediates) > _MAXIMUM_INTERMEDIATES:
        raise ChainRefused("the peer sent too many intermediate certificates")
    _check_member(leaf, usage, now)
    if leaf.der in {root.der for root in roots}:
        return (leaf,)
    chain = _extend((leaf,), roots, intermediates, usage, now)
    if chain is None:
        raise ChainRefused("no trusted authority signed the certificate: was it issued by another CA?")
    return chain


def _extend(
    chain: tuple[Certificate, ...],
    roots: Sequence[Certificate],
    intermediates: Sequence[Certificate],
    usage: Usage,
    now: datetime,
) -> tuple[Certificate, ...] | None:
    for root in roots:
        if _may_issue(root, chain, usage, now):
            return (*chain, root)
    if len(chain) >= MAXIMUM_DEPTH:
        return None
    for candidate in intermediates:
        if candidate not in chain and _may_issue(candidate, chain, usage, now):
            found = _extend((*chain, candidate), roots, intermediates, usage, now)
            if found is not None:
                return found
    return None


def _may_issue(issuer: Certificate, chain: tuple[Certificate, ...], usage: Usage, now: datetime) -> bool:
    """Whether the issuer signed the chain's last member and was allowed to."""
    if not issuer.is_ca or not _is_signed_by(chain[-1], issuer):
        return False
    constraints = extension_of(issuer.handle, x509.BasicConstraints)
    # Self-issued members do not count towards the path length; the leaf never does.
    below = sum(1 for member in chain[1:] if member.handle.subject != member.handle.issuer)
    if constraints is not None and constraints.path_length is not None and below > constraints.path_length:
        return False
    key_usage = extension_of(issuer.handle, x509.KeyUsage)
    if key_usage is not None and not key_usage.key_cert_sign:
        return False
    try:
        _check_member(issuer, usage, now)
    except ChainRefused:
        return False
    return True


def _check_member(certificate: Certificate, usage: Usage, now: datetime) -> None:
    if now < certificate.not_before:
        raise ChainRefused("the certificate is not valid yet: compare the clocks of both machines")
    if now > certificate.not_after:
        raise ChainRefused("the certificate has expired")
    # Without the extension every use is allowed (RFC 5280 4.2.1.12), as in Go.
    if certificate.extended_usages and not {usage.value, "any"} & set(certificate.extended_usages):
        raise ChainRefused(f"the certificate is not meant for {usage.value}")
    unknown = [e.oid for e in certificate.handle.extensions if e.critical and e.oid not in _UNDERSTOOD]
    if unknown:
        raise ChainRefused(
            f"the certificate has a critical extension that is not understood: {unknown[0].dotted_string}"
        )


def _is_signed_by(certificate: Certificate, issuer: Certificate) -> bool:
    try:
        certificate.handle.verify_directly_issued_by(issuer.handle)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True
