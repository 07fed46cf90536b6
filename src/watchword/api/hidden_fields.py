"""Values that keep some of their fields out of logs and error messages."""

from __future__ import annotations

from typing import ClassVar

from msgspec import Struct


class HiddenFields(Struct, frozen=True):
    """A value whose `repr` leaves out the fields named in `hidden`: secrets, and content too long to print."""

    hidden: ClassVar[tuple[str, ...]] = ()

    def __repr__(self) -> str:
        shown = (name for name in self.__struct_fields__ if name not in self.hidden)
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"
