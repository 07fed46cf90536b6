"""What keeps a person's wish about a fleet from being carried out.

AdminError
├── OperationRefused      it must not be done: somebody else's name, a contradiction, a missing right
├── InvalidInput     what was given cannot be used as it stands
└── NotReady      what was waited for did not come in time
"""

from __future__ import annotations


class AdminError(Exception):
    """Base of everything this room raises; the message ends with the next step."""


class OperationRefused(AdminError):
    """It must not be done as things stand; nothing was changed."""


class InvalidInput(AdminError):
    """What was given cannot be used; nothing was changed."""


class NotReady(AdminError):
    """What was done so far stands; what it should lead to did not come in time."""
