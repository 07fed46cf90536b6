"""Short forms of click's options: a switch, a text that is empty by default, an option whose default is shown."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

flag = partial(click.option, is_flag=True)
text = partial(click.option, default="")
option = partial(click.option, show_default=True)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    """Add several options to a command, in the order in which its help lists them."""
    return lambda command: reduce(lambda decorated, add: add(decorated), reversed(options), command)
