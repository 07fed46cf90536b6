"""Constants of certificates.k8s.io, and the request inside a CertificateSigningRequest."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from watchword.api.conditions import conditions_of
from watchword.api.meta import Object
from watchword.api.time import parse_rfc3339
from watchword.apiserver.model import User
from watchword.pki.csr import ParsedCsr, parse_csr
from watchword.pki.errors import InvalidCsr

GROUP = "certificates.k8s.io"
PLURAL = "certificatesigningrequests"

KUBE_APISERVER_CLIENT = "kubernetes.io/kube-apiserver-client"
KUBELET_CLIENT = "kubernetes.io/kube-apiserver-client-kubelet"
KUBELET_SERVING = "kubernetes.io/kubelet-serving"
LEGACY_UNKNOWN = "kubernetes.io/legacy-unknown"

APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"


def parse_pem_request(csr: Object) -> ParsedCsr:
    """Return the parsed PEM request; raise InvalidCsr when it cannot be parsed."""
    text = (csr.get("spec") or {}).get("request")
    try:
        pem = base64.b64decode(text if isinstance(text, str) else "", validate=True)
    except (binascii.Error, ValueError) as cause:
        raise InvalidCsr("the request is not base64") from cause
    return parse_csr(pem)


def conditions_named(csr: Object, type_: str) -> list[Object]:
    """Return every condition of that type."""
    return [row for row in conditions_of(csr) if row.get("type") == type_]


def has_condition(csr: Object, *types: str) -> bool:
    """Whether any condition of these types is there; such conditions are only ever True."""
    return any(row.get("type") in types for row in conditions_of(csr))


def certificate_of(csr: Object) -> str:
    """Return the issued certificate in the status, empty when there is none."""
    return (csr.get("status") or {}).get("certificate") or ""


def signer_of(csr: Object) -> str:
    """Return the requested signer."""
    return (csr.get("spec") or {}).get("signerName") or ""


def usages_of(csr: Object) -> tuple[str, ...]:
    """Return the requested usages."""
    return tuple((csr.get("spec") or {}).get("usages") or ())


def requester_of(csr: Object) -> User:
    """Return the requester, as the server recorded it on create; clients cannot write these fields."""
    spec = csr.get("spec") or {}
    extra = {key: tuple(values) for key, values in (spec.get("extra") or {}).items()}
    return User(spec.get("username") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def latest_update(rows: Iterable[Object]) -> datetime | None:
    """Return the newest lastUpdateTime of the conditions, None when none has one."""
    times = [_instant(row.get("lastUpdateTime")) for row in rows]
    return max((time for time in times if time is not None), default=None)


def _instant(value: Any) -> datetime | None:
    return parse_rfc3339(value) if isinstance(value, str) else None
