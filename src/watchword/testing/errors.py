"""What can go wrong while a test prepares its world.

TestingError
├── AssetsMissing     no real control plane can be started here
├── PlaneFailed       a control plane did not come up, or ended
├── UnsupportedByPlane     this control plane cannot do what the test asks of it
├── EventuallyTimeout     what a test waited for did not come about
└── SecretLeaked     a planted secret was seen where no secret may be
"""

from __future__ import annotations


class TestingError(Exception):
    """Base of everything this room raises."""

    __test__ = False  # pytest takes names that begin with Test for test classes


class AssetsMissing(TestingError):
    """No real control plane can be started here; the message says what to do."""


class PlaneFailed(TestingError):
    """The control plane did not come up, or a part of it ended; the message quotes its log."""


class UnsupportedByPlane(TestingError):
    """This control plane cannot do what the test asks of it; the message says which one can."""


class EventuallyTimeout(TestingError, AssertionError):
    """What a test waited for did not come about in time; the message shows the last state seen."""


class SecretLeaked(TestingError, AssertionError):
    """A planted secret was seen where no secret may be; the message names the place, not the value."""
