"""Validates names, labels and keys with Kubernetes' messages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any

from watchword.api.meta import Object
from watchword.apiserver.field_errors import invalid
from watchword.apiserver.model import FieldError

NameRule = Callable[[str], list[str]]
"""Returns what is wrong with a name, nothing when it is right."""

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN = rf"{_LABEL}(\.{_LABEL})*"
_DNS1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_QUALIFIED = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_CONFIG_KEY = "[-._a-zA-Z0-9]+"

_LABEL_WORDS = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_WORDS = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_DNS1035_WORDS = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character"
)
_QUALIFIED_WORDS = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)


@cache
def _mismatch(words: str, pattern: str, *examples: str) -> str:
    shown = "(e.g. " + " or ".join(f"'{example}', " for example in examples) if examples else "("
    return f"{words} {shown}regex used for validation is '{pattern}')"


def _pattern_errors(text: str, pattern: str, limit: int, complaint: str, unit: str = "characters") -> list[str]:
    found = [f"must be no more than {limit} {unit}"] if len(text.encode()) > limit else []
    if re.fullmatch(pattern, text, re.ASCII) is None:
        found.append(complaint)
    return found


def dns_label(name: str) -> list[str]:
    dotted = re.fullmatch(_SUBDOMAIN, name, re.ASCII) is not None
    complaint = "must not contain dots" if dotted else _mismatch(_LABEL_WORDS, _LABEL, "my-name", "123-abc")
    return _pattern_errors(name, _LABEL, 63, complaint)


def dns_subdomain(name: str, *, unit: str = "characters") -> list[str]:
    """Validate a DNS subdomain of RFC 1123, as most objects are named; keys of labels count bytes."""
    return _pattern_errors(name, _SUBDOMAIN, 253, _mismatch(_SUBDOMAIN_WORDS, _SUBDOMAIN, "example.com"), unit)


def dns1035_label(name: str) -> list[str]:
    return _pattern_errors(name, _DNS1035, 63, _mismatch(_DNS1035_WORDS, _DNS1035, "my-name", "abc-123"))


def path_segment(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{part}'" for part in ("/", "%") if part in name]


def any_name(name: str) -> list[str]:
    del name
    return []


def generated_prefix(rule: NameRule) -> NameRule:
    """Return the rule for a generateName: what is appended mends a trailing dash."""

    def judge(prefix: str) -> list[str]:
        return rule(prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix)

    return judge


def qualified_name(key: str) -> list[str]:
    """Validate a label key, an annotation key or a finalizer: an optional domain, then a name."""
    complaint = _mismatch(_QUALIFIED_WORDS, _QUALIFIED, "MyName", "my.name", "123-abc")
    *prefixes, name = key.split("/")
    if len(prefixes) > 1:
        return [
            f"a valid label key {complaint} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    found = list[str]()
    for prefix in prefixes:
        complaints = dns_subdomain(prefix, unit="bytes") if prefix else ["must be non-empty"]
        found.extend(f"prefix part {each}" for each in complaints)
    if not name:
        found.append("name part must be non-empty")
    found.extend(f"name part {each}" for each in _pattern_errors(name, _QUALIFIED, 63, complaint, "bytes"))
    return found


def label_value(value: str) -> list[str]:
    words = (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
        "and must start and end with an alphanumeric character"
    )
    pattern = f"({_QUALIFIED})?"
    complaint = _mismatch(words, pattern, "MyValue", "my_value", "12345")
    return _pattern_errors(value, pattern, 63, complaint, "bytes")


def config_key(key: str) -> list[str]:
    """Validate a key of a Secret or ConfigMap: it becomes a file name."""
    words = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    complaint = _mismatch(words, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name")
    found = _pattern_errors(key, _CONFIG_KEY, 253, complaint)
    if key == ".":
        found.append("must not be '.'")
    elif key == "..":
        found.append("must not be '..'")
    elif key.startswith(".."):
        found.append("must not start with '..'")
    return found


_PERCENT = (
    "a valid percent string must be a numeric string followed by an ending '%' "
    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
)


def port_errors(port: int, path: str) -> Iterator[FieldError]:
    if not 1 <= port <= 65535:
        yield invalid(path, port, "must be between 1 and 65535, inclusive")


def negative_errors(spec: Object, names: Iterable[str], path: str) -> Iterator[FieldError]:
    for name in names:
        if (spec.get(name) or 0) < 0:
            yield invalid(f"{path}.{name}", spec[name], "must be greater than or equal to 0")


def int_or_percent_errors(value: Any, path: str) -> Iterator[FieldError]:
    if isinstance(value, str) and not re.fullmatch(r"[0-9]+%", value, re.ASCII):
        yield invalid(path, value, _PERCENT)
    elif isinstance(value, int) and value < 0:
        yield invalid(path, value, "must be greater than or equal to 0")
