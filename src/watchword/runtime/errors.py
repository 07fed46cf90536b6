"""The errors of the controller runtime.

ControllerRuntimeError
├── NotLeading            a write was refused because leadership is lost
├── FieldContested        another program keeps changing back what was written
│   └── CreationContested it keeps deleting what was created
├── CacheError            a cache was asked for something it was not told to keep
├── NameConflict          an object of that name exists and is not ours
├── BeingDeleted          the object of that name is being deleted
├── NotServed             a kind was declared and the server does not serve it
└── UnexpectedExit        a part of the process ended that must never end
"""


class ControllerRuntimeError(Exception):
    """Base of the errors of this package."""


class NotLeading(ControllerRuntimeError):
    """This process does not hold the lease, so it must not write."""


class FieldContested(ControllerRuntimeError):
    """Another program keeps changing back what this one writes; nothing was sent for now.

    `retry_in` is how many seconds the field is left alone.
    """

    sentence = (
        "another program keeps changing {name} of {path} back: waiting {pause:.0f} s before the next write; "
        "metadata.managedFields of the object names who writes it"
    )

    def __init__(self, path: str, name: str, retry_in: float) -> None:
        super().__init__(self.sentence.format(path=path, name=name, pause=retry_in))
        self.retry_in = retry_in


class CreationContested(FieldContested):
    """Another program keeps deleting the object that this one creates."""

    sentence = (
        "another program keeps deleting {path}: waiting {pause:.0f} s before it is created again; "
        "the audit log of the server names who deletes it"
    )


class CacheError(ControllerRuntimeError):
    """The cache does not watch what was requested; the message says what to register."""


class UnexpectedExit(ControllerRuntimeError):
    """A part of the process ended that must never end, so the whole process ends."""


class NameConflict(ControllerRuntimeError):
    """An object of that name exists and is not ours; it is left as it is."""


class BeingDeleted(ControllerRuntimeError):
    """The object of that name is being deleted; try again when it is gone."""


class NotServed(ControllerRuntimeError):
    """A kind was declared, and the server has not begun to serve it."""
