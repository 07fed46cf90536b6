"""Values that may be absent: `optional.of(1)`, `self.?field`."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from watchword.cel.functions import CelError, Function, no_overload, select


class OptionalValue(Struct, frozen=True):
    """A value, or none."""

    held: tuple[Any, ...] = ()  # one item, or none

    def value(self) -> Any:
        """Return the value; raises CelError when there is none."""
        if not self.held:
            raise CelError("optional.none() dereference")
        return self.held[0]


NONE: Final = OptionalValue()


def select_optional(target: Any, key: Any) -> OptionalValue:
    """Return a field or item that may be absent; what comes after an absent one is absent, too."""
    if type(target) is OptionalValue:
        return select_optional(target.held[0], key) if target.held else NONE
    if type(target) is list:
        return OptionalValue((target[key],)) if type(key) is int and 0 <= key < len(target) else NONE
    try:
        return OptionalValue((select(target, key),))
    except CelError:
        if type(target) is not dict:
            raise
        return NONE


def _of_non_zero(value: Any) -> OptionalValue:
    return NONE if value is None or value in (0, "", [], {}) else OptionalValue((value,))


def _expect(value: Any) -> OptionalValue:
    return value if type(value) is OptionalValue else no_overload()


FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    ("optional.of", 1): lambda value: OptionalValue((value,)),
    ("optional.ofNonZeroValue", 1): _of_non_zero,
    ("optional.none", 0): lambda: NONE,
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    ("hasValue", 1): lambda found: bool(_expect(found).held),
    ("value", 1): lambda found: _expect(found).value(),
    ("orValue", 2): lambda found, other: found.held[0] if _expect(found).held else other,
    ("or", 2): lambda found, other: found if _expect(found).held else _expect(other),
}
