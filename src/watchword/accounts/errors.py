"""What can go wrong for a program that uses the tokens of managed service accounts.

AccountsError
└── NoToken     the hub holds no token of that account for that cluster
"""

from __future__ import annotations


class AccountsError(Exception):
    """Base of everything this package raises."""


class NoToken(AccountsError):
    """The hub holds no token of that account for that cluster; the message says what to look at."""
