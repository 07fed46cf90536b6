"""Secret values that cannot be printed by accident."""

import hmac
from typing import ClassVar, Generic, NoReturn, TypeVar

from msgspec import Struct


class HiddenFields(Struct, frozen=True):
    """A value whose `repr` leaves out the fields named in `hidden`: secrets, and content too long to print."""

    hidden: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.hidden)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"


T = TypeVar("T", str, bytes)

REDACTED = "***"


class Sensitive(Generic[T]):
    """A secret string or bytes; only `reveal()` returns it, so that every use can be found by searching."""

    __slots__ = ("_value",)

    def __init__(self, value: T) -> None:
        self._value: T = value

    def reveal(self) -> T:
        return self._value

    def __repr__(self) -> str:
        return REDACTED

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(REDACTED, spec)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, Sensitive):
            return NotImplemented
        return hmac.compare_digest(_as_bytes(self._value), _as_bytes(other._value))

    def __hash__(self) -> int:
        return hash(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret value is not serialised: call reveal() where it must leave the process")


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
