"""What condition messages say about a credential: which was issued, which is used, and its validity."""

import hashlib
import math
import re
from collections.abc import Collection
from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from watchword.api.time import parse_rfc3339, rfc3339

CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
"""Among the extra attributes of a user: which credential the request was made with."""

_ID = r"(?:JTI|X509SHA256)=[A-Za-z0-9._:-]{1,128}"
_ISSUED = re.compile(rf"(?<!uses )\bcredential (?P<id>{_ID})(?=; |$)", re.ASCII)
_USED = re.compile(rf"\buses credential (?P<id>{_ID})(?=; |$)", re.ASCII)
_USED_CLAUSE = re.compile(rf"; uses credential {_ID}(?=; |$)", re.ASCII)
_WHOLE_ID = re.compile(_ID, re.ASCII)


class CredentialUse(StrEnum):
    """Which credential the holder was last seen with."""

    CURRENT = "current"
    PREVIOUS = "previous"
    UNKNOWN = "unknown"


def certificate_id(der: bytes) -> str:
    return f"X509SHA256={hashlib.sha256(der).hexdigest()}"


def token_id(jti: object) -> str:
    found = f"JTI={jti}" if isinstance(jti, str) else ""
    return found if is_credential_id(found) else ""


def is_credential_id(text: str) -> bool:
    """Whether a text, perhaps of another writer, has the form of an id."""
    return _WHOLE_ID.fullmatch(text) is not None


def format_issued(credential_id: str) -> str:
    """Return the clause that names the credential last issued; empty without an id."""
    return f"; credential {credential_id}" if is_credential_id(credential_id) else ""


def format_used(credential_id: str) -> str:
    """Return the clause that names the credential in use; empty without an id."""
    return f"; uses credential {credential_id}" if is_credential_id(credential_id) else ""


def parse_issued(message: str) -> frozenset[str]:
    return frozenset(match["id"] for match in _ISSUED.finditer(message))


def parse_used(message: str) -> str:
    """Return the credential that a message reports as used; empty when it reports none."""
    match = _USED.search(message)
    return "" if match is None else match["id"]


def without_use(message: str) -> str:
    """Return a message without the clause that names the credential in use: the rest changes with each issue alone."""
    return _USED_CLAUSE.sub("", message)


def decide_use(issued: Collection[str], used: str) -> CredentialUse:
    if not issued or not used:
        return CredentialUse.UNKNOWN
    return CredentialUse.CURRENT if used in issued else CredentialUse.PREVIOUS


LATEST_RENEWAL = 0.8  # of a validity: every agent has renewed by then

_RFC3339 = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z"
_OURS = re.compile(
    rf"valid (?:from (?P<issued>{_RFC3339})|at present)"
    rf"(?: until (?P<expires>{_RFC3339})|, without expiry)"
    rf"(?:, to be renewed at (?P<renews>{_RFC3339}))?(?=; |$)",
    re.ASCII,
)
# As agents of OCM report certificates (both instants as Go prints them) and tokens (the expiry alone).
_GO = r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2}| \+0000 UTC)"
_OCM_PERIOD = re.compile(rf"from (?P<issued>{_GO}) to (?P<expires>{_GO})", re.ASCII)
_OCM_EXPIRY = re.compile(rf"(?<!from ){_GO}", re.ASCII)


class CredentialValidity(Struct, frozen=True):
    """When a credential was issued, expires and is to be renewed; None: not known, or never."""

    issued: datetime | None = None
    expires: datetime | None = None
    renews: datetime | None = None

    @property
    def latest_renewal(self) -> datetime | None:
        """When it should be renewed at the latest: as reported, else at 80 % of its validity."""
        if self.renews is not None or self.issued is None or self.expires is None:
            return self.renews
        return self.issued + (self.expires - self.issued) * LATEST_RENEWAL


def format_validity(validity: CredentialValidity) -> str:
    issued = f"valid from {rfc3339(validity.issued)}" if validity.issued is not None else "valid at present"
    expires = f" until {rfc3339(validity.expires)}" if validity.expires is not None else ", without expiry"
    renews = f", to be renewed at {rfc3339(validity.renews)}" if validity.renews is not None else ""
    return issued + expires + renews


def parse_validity(message: str) -> CredentialValidity | None:
    """Return the validity that a message reports, None when it reports none.

    Of several credentials in one message, joined with semicolons, it is that of the first one to expire.
    """
    found = [_read(match) for match in _OURS.finditer(message)]
    known = [validity for validity in found if validity is not None] or _read_ocm(message)
    return min(known, key=lambda each: each.expires.timestamp() if each.expires else math.inf, default=None)


def _read(match: re.Match[str]) -> CredentialValidity | None:
    texts = [match[name] for name in ("issued", "expires", "renews")]
    instants = [None if text is None else parse_rfc3339(text) for text in texts]
    if any(text is not None and instant is None for text, instant in zip(texts, instants, strict=True)):
        return None
    return CredentialValidity(*instants)


def _read_ocm(message: str) -> list[CredentialValidity]:
    period, instants = _OCM_PERIOD.search(message), _OCM_EXPIRY.findall(message)
    texts = (period["issued"], period["expires"]) if period is not None else ("", *instants)
    as_rfc3339 = [text.replace(" +0000 UTC", "Z").replace(" ", "T") for text in texts]
    issued, expires = map(parse_rfc3339, as_rfc3339) if len(texts) == 2 else (None, None)
    return [] if expires is None else [CredentialValidity(issued, expires)]
