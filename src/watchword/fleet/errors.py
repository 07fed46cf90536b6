"""What keeps a person's wish about a fleet from being carried out.

FleetError
├── Refused      it must not be done: somebody else's name, a contradiction, a missing right
├── Unusable     what was given cannot be used as it stands
└── TooLate      what was waited for did not come in time
"""

from __future__ import annotations


class FleetError(Exception):
    """Base of everything this room raises; the message ends with the next step."""


class Refused(FleetError):
    """It must not be done as things stand; nothing was changed."""


class Unusable(FleetError):
    """What was given cannot be used; nothing was changed."""


class TooLate(FleetError):
    """What was done so far stands; what it should lead to did not come in time."""
