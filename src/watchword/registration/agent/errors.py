"""What keeps an agent from registering its cluster.

AgentError
└── NameTaken     another cluster has this name on the hub
"""

from __future__ import annotations


class AgentError(Exception):
    """Base of the errors of the agent."""


class NameTaken(AgentError):
    """Another cluster has this name on the hub; the message contains the next step."""
