"""What can prevent the dashboard from starting.

DashboardError
└── NotLoopback       the one-time address would be reachable from other machines
"""

from __future__ import annotations


class DashboardError(Exception):
    """Base of the errors of this package."""


class NotLoopback(DashboardError):
    """The dashboard was asked to serve a person's rights on an address that other machines reach."""
