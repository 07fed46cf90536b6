"""What keeps a work from being done.

WorkError
├── InvalidFieldPath     a path in the work's configuration leads nowhere
└── NotPermitted         the work's executor may not do what the work asks for
"""


class WorkError(Exception):
    """Base of what keeps a work from being done."""


class InvalidFieldPath(WorkError):
    """A path is not understood; the message says which."""


class NotPermitted(WorkError):
    """The executor lacks a right; the message says which."""
