"""How a credential fares, decided from its life alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

LATEST_RENEWAL = 0.8  # of a life: every holder that keeps its promise has renewed by then
TOLERANCE = 0.05  # of a life: for retries
FORESIGHT = timedelta(days=90)  # before a certificate authority ends, which takes people to replace


class Health(IntEnum):
    """In order of what needs attention first."""

    EXPIRED = 0
    FAILING = 1
    OVERDUE = 2
    PENDING = 3
    UNKNOWN = 4
    DUE = 5
    GOOD = 6

    @property
    def word(self) -> str:
        """How it is shown."""
        return self.name.capitalize()

    @property
    def is_trouble(self) -> bool:
        """Whether somebody has to look at it."""
        return self < Health.DUE

    @property
    def is_news(self) -> bool:
        """Whether it is anything but well."""
        return self is not Health.GOOD


@dataclass(frozen=True, slots=True)
class Life:
    """When something was issued, expires and is to be renewed; None: nobody knows, or never."""

    issued: datetime | None = None
    expires: datetime | None = None
    renews: datetime | None = None

    @property
    def latest_renewal(self) -> datetime | None:
        """When it should be renewed at the latest: as said, else at 80 % of its life."""
        if self.renews is not None or self.issued is None or self.expires is None:
            return self.renews
        return self.issued + (self.expires - self.issued) * LATEST_RENEWAL


def judge_renewed(life: Life, *, now: datetime) -> Health:
    """Judge a credential that its holder renews by itself."""
    if life.expires is None:
        return Health.UNKNOWN
    if now >= life.expires:
        return Health.EXPIRED
    renewal = life.latest_renewal
    if renewal is None or now < renewal:
        return Health.GOOD
    whole = life.expires - (life.issued or renewal)
    return Health.OVERDUE if now >= renewal + whole * TOLERANCE else Health.DUE


def judge_authority(life: Life, *, now: datetime) -> Health:
    """Judge a certificate authority, which nobody renews without a decision."""
    if life.expires is None:
        return Health.UNKNOWN
    if now >= life.expires:
        return Health.EXPIRED
    return Health.DUE if now >= life.expires - FORESIGHT else Health.GOOD


def judge_passing(life: Life, *, now: datetime) -> Health:
    """Judge what is meant to expire, as a join token is."""
    return Health.EXPIRED if life.expires is not None and now >= life.expires else Health.GOOD
