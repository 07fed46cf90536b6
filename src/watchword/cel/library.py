"""Everything that expressions may call beyond the language itself: Kubernetes' libraries in one table."""

from __future__ import annotations

from typing import Final

from watchword.cel import (
    format_functions,
    network_functions,
    optional_values,
    quantity_functions,
    text_functions,
    time_functions,
)
from watchword.cel.functions import Function

_MODULES = (
    text_functions,
    time_functions,
    quantity_functions,
    network_functions,
    format_functions,
    optional_values,
)
FUNCTIONS: Final[dict[tuple[str, int], Function]] = {
    name: function for module in _MODULES for name, function in module.FUNCTIONS.items()
}
METHODS: Final[dict[tuple[str, int], Function]] = {
    name: function for module in _MODULES for name, function in module.METHODS.items()
}
