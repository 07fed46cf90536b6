"""What keeps an agent from its work.

AgentError
└── NameTaken    another cluster has this name on the hub
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of the errors of this package."""


class NameTaken(AgentError):
    """Another cluster has this name on the hub; the message contains the next step."""
