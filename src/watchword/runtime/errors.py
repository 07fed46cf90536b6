"""What can go wrong while controllers run.

RuntimeTrouble
├── VirtualTimeError      real waiting was asked of a loop whose time is not real
│   └── Deadlock          every task waits and no timer is left: nothing can ever happen
├── NotLeading            a write was refused because leadership is lost
├── CacheError            a cache was asked for something it was not told to keep
├── NameConflict          an object of that name exists and is not ours
├── BeingDeleted          the object of that name is on its way out
├── NotServed             a kind was declared and the server does not serve it
└── Halted                a part of the process ended that must never end
"""

from __future__ import annotations


class RuntimeTrouble(Exception):
    """Base of everything this room raises."""


class VirtualTimeError(RuntimeTrouble):
    """Sockets and processes live in real time; a virtual loop cannot wait for them."""


class Deadlock(VirtualTimeError):
    """Every task waits and no timer is left, so nothing can ever happen again."""


class NotLeading(RuntimeTrouble):
    """This process does not hold the lease, so it must not write."""


class CacheError(RuntimeTrouble):
    """The cache does not hold what was asked for; the message says what to register."""


class Halted(RuntimeTrouble):
    """A part of the process ended that must never end, so the whole process ends."""


class NameConflict(RuntimeTrouble):
    """An object of that name exists and is not ours; it is left as it is."""


class BeingDeleted(RuntimeTrouble):
    """The object of that name is on its way out; try again when it is gone."""


class NotServed(RuntimeTrouble):
    """A kind was declared, and the server has not begun to serve it."""
