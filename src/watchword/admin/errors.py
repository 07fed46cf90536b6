"""The errors of operations on a fleet.

AdminError
├── OperationRefused  it must not be done: another owner's name, a contradiction, a missing right
│   └── NotFoundOnHub the hub has nothing of that name
├── InvalidInput      the input cannot be used
└── NotReady          the expected state was not reached
"""


class AdminError(Exception):
    """Base of the errors of this package; the message ends with the next step."""


class OperationRefused(AdminError):
    """It must not be done as things stand; nothing was changed."""


class NotFoundOnHub(OperationRefused):
    """No object of that name exists; nothing was changed."""


class InvalidInput(AdminError):
    """What was given cannot be used; nothing was changed."""


class NotReady(AdminError):
    """What was done so far stands; what it should lead to did not come in time."""
