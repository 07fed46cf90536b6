"""The errors of test fixtures.

TestingError
├── AssetsMissing         no real control plane can be started here
├── PlaneFailed           a control plane did not start, or ended
├── UnsupportedByPlane    this control plane does not support what the test needs
├── VirtualTimeError      real waiting was requested of a loop in virtual time
│   └── Deadlock          every task waits and no timer is left
└── EventuallyTimeout     the expected state was not reached in time
"""


class TestingError(Exception):
    """Base of the errors of this package."""

    __test__ = False  # pytest takes names that begin with Test for test classes


class AssetsMissing(TestingError):
    """No real control plane can be started here; the message says what to do."""


class PlaneFailed(TestingError):
    """The control plane did not start, or a part of it ended; the message quotes its log."""


class UnsupportedByPlane(TestingError):
    """This control plane does not support what the test needs; the message says which one does."""


class VirtualTimeError(TestingError):
    """Sockets and processes need real time; a virtual loop cannot wait for them."""


class Deadlock(VirtualTimeError):
    """Every task waits and no timer is left."""


class EventuallyTimeout(TestingError, AssertionError):
    """The expected state was not reached in time; the message shows the last state seen."""
