"""The tables, read once."""

from __future__ import annotations

from functools import cache

from watchword.apiserver.kinds.fields import Messages, read_tables
from watchword.apiserver.kinds.schemas import Schemas
from watchword.apiserver.kinds.tables import TABLES
from watchword.apiserver.kinds.typed import TypedDecoder


@cache
def messages() -> Messages:
    """Return every message of the built-in kinds."""
    return read_tables(TABLES)


@cache
def schemas() -> Schemas:
    """Return the schemas drawn from them."""
    return Schemas(messages())


@cache
def typed() -> TypedDecoder:
    """Return what gives decoded bodies the shape of their kind."""
    return TypedDecoder(messages())
