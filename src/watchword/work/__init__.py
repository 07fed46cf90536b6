"""Work: what a hub asks a cluster to have becomes objects there, kept as asked, reported on, and removed."""

from __future__ import annotations

from watchword.work.controllers import work_controllers

__all__ = ["work_controllers"]
