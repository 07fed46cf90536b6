"""Validates labels and domains in definitions, with Kubernetes' messages."""

from __future__ import annotations

import re

_LABEL = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_LABEL}')"
)
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)


def dns1035_label_errors(text: str) -> str:
    """Return why a text is not a DNS-1035 label; empty when it is one."""
    return _name_errors(text, _LABEL, _LABEL_RULE, 63)


def dns_subdomain_errors(text: str) -> str:
    """Return why a text is not a DNS subdomain; empty when it is one."""
    return _name_errors(text, _SUBDOMAIN, _SUBDOMAIN_RULE, 253)


def _name_errors(text: str, pattern: str, rule: str, limit: int) -> str:
    found = [f"must be no more than {limit} characters"] if len(text) > limit else []
    if re.fullmatch(pattern, text, re.ASCII) is None:
        found.append(rule)
    return ",".join(found)
