"""The idle times of a simulated fleet, stretched so that nothing but what matters is simulated."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from watchword.credentials.evidence import SignerTiming
from watchword.kube.backoff import Backoff
from watchword.kube.watch import WatchOptions
from watchword.runtime.leader_election import ElectionTiming

PATIENCE = Backoff(first=10.0, limit=1800.0)
"""Of what keeps failing; five minutes in production."""

SESSION = (10 * 86400, 20 * 86400)
"""Seconds that a watch lasts; five to ten minutes in production."""

TIMING = ElectionTiming(lease=4 * 3600, renew_deadline=3 * 3600.0, retry=3600.0)
"""Of the hub's leaders; seconds in production."""

SIGNER = SignerTiming(settle=timedelta(hours=1), spread=timedelta(hours=1), poll=timedelta(hours=4))
"""How quickly a change of a signing key is noticed; minutes in production."""

IDLE_CHECK = timedelta(hours=3)
"""Of an agent that nothing has told to look at its hub or its ManagedCluster; minutes in production."""


def follow_options(random: Random) -> WatchOptions:
    """Return how collections are followed: no heartbeats, and no silence that would be missed."""
    return WatchOptions(
        session=SESSION,
        stall_after=2.0 * SESSION[1],
        backoff=Backoff(first=0.2, limit=PATIENCE.limit),
        random=random,
    )
