"""What an accepted cluster's agent does, each part imported when it is taken up: a cluster in waiting needs none."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.agent.agent import Duty, DutyParts
from watchword.runtime.reconcile import ControllerSpec


def addons(parts: DutyParts) -> Iterable[ControllerSpec]:
    """Keep the credentials of add-ons, and tell how the add-ons are."""
    from watchword.agent.addons.duty import addon_duty  # noqa: PLC0415 - as the module says

    return addon_duty(parts)


def works(parts: DutyParts) -> Iterable[ControllerSpec]:
    """Apply what the hub asks this cluster to have."""
    from watchword.agent.work import work_duty  # noqa: PLC0415 - as the module says

    return work_duty(parts)


DUTIES: tuple[Duty, ...] = (addons, works)
