"""What an accepted cluster's agent does, each part imported when it is taken up: a cluster in waiting needs none."""

from __future__ import annotations

from collections.abc import Iterable

from watchword.agent.process import AgentControllerContext, ControllerFactory
from watchword.runtime.reconcile import ControllerSpec


def addons(parts: AgentControllerContext) -> Iterable[ControllerSpec]:
    """Keep the credentials of add-ons, and tell how the add-ons are."""
    from watchword.agent.addons.controllers import addon_controllers

    return addon_controllers(parts)


def works(parts: AgentControllerContext) -> Iterable[ControllerSpec]:
    """Apply what the hub asks this cluster to have."""
    from watchword.agent.work import work_controllers

    return work_controllers(parts)


CONTROLLER_FACTORIES: tuple[ControllerFactory, ...] = (addons, works)
