"""What keeps a work from being done.

WorkError (an AgentError)
├── InvalidFieldPath    a path in the work's configuration leads nowhere anybody can follow
└── NotPermitted      the work's executor may not do what the work asks for
"""

from __future__ import annotations

from watchword.agent.errors import AgentError


class WorkError(AgentError):
    """Base of everything that work raises."""


class InvalidFieldPath(WorkError):
    """A path is not understood; the message says which."""


class NotPermitted(WorkError):
    """The executor lacks a right; the message says which."""
