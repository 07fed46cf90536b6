"""Checks x-kubernetes-validations."""

from __future__ import annotations

from typing import Any

from watchword.apiserver.model import FieldError
from watchword.apiserver.schema.model import Schema


def check_rules(value: Any, schema: Schema, path: str, old: Any, errors: list[FieldError]) -> None:
    """Append what the rules at this value and below refuse."""
