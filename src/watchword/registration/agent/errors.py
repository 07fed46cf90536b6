"""What keeps an agent from its work.

AgentError
├── NameTaken                another cluster has this name on the hub
└── WorkError                what a work asks for cannot be done
    ├── InvalidFieldPath     a path in the work's configuration leads nowhere
    └── NotPermitted         the work's executor may not do what the work asks for
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of the errors of this package."""


class NameTaken(AgentError):
    """Another cluster has this name on the hub; the message contains the next step."""


class WorkError(AgentError):
    """Base of what keeps a work from being done."""


class InvalidFieldPath(WorkError):
    """A path is not understood; the message says which."""


class NotPermitted(WorkError):
    """The executor lacks a right; the message says which."""
