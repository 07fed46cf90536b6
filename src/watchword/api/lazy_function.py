"""Functions of modules that most processes never need: no start waits for them."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from operator import attrgetter
from typing import Any


class LazyFunction:
    """Stands for a function, or for `Class.method`; the first call imports it.

    For wiring only: a module that merely uses another imports it. A test resolves all of them.
    """

    __slots__ = ("_function", "module", "name")

    def __init__(self, module: str, name: str) -> None:
        self.module = module
        self.name = name
        self._function: Callable[..., Any] | None = None

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        function = self._function
        if function is None:
            function = self._function = self.resolve()
        return function(*arguments)

    def resolve(self) -> Callable[..., Any]:
        """Return the function."""
        found: Callable[..., Any] = attrgetter(self.name)(import_module(self.module))
        return found
