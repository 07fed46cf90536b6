"""Which credential was issued and which one its holder uses, as clauses of the conditions that report them.

A credential is named as Kubernetes names it in audit logs (`authentication.kubernetes.io/credential-id`): a
certificate by its fingerprint, a token by its id. Neither is secret. The clauses stand after a validity, behind a
semicolon, so readers that do not know them still find the validity; this module alone writes and reads them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection
from enum import StrEnum

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
    """Return the id of a certificate."""
    return f"X509SHA256={hashlib.sha256(der).hexdigest()}"


def token_id(jti: object) -> str:
    """Return the id of a token with this `jti`; empty when it has none."""
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
    """Return every credential that a message reports as issued."""
    return frozenset(match["id"] for match in _ISSUED.finditer(message))


def parse_used(message: str) -> str:
    """Return the credential that a message reports as used; empty when it reports none."""
    match = _USED.search(message)
    return "" if match is None else match["id"]


def without_use(message: str) -> str:
    """Return a message without the clause that names the credential in use: the rest changes with each issue alone."""
    return _USED_CLAUSE.sub("", message)


def decide_use(issued: Collection[str], used: str) -> CredentialUse:
    """Decide whether the credential in use is the one last issued."""
    if not issued or not used:
        return CredentialUse.UNKNOWN
    return CredentialUse.CURRENT if used in issued else CredentialUse.PREVIOUS
