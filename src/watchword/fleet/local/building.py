"""Takes the steps one after another, tells the story, and says in the end what is not as it should be."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from datetime import timedelta

from watchword.api.validation import format_duration
from watchword.fleet.errors import TooLate
from watchword.fleet.inventory import Inventory
from watchword.fleet.local.site import Site
from watchword.fleet.local.steps import Step
from watchword.fleet.local.story import Story

SPARE_BYTES = 1024 * 1024  # with less than that left, writes begin to fail


def story_of(steps: Sequence[Step]) -> Story:
    """Return the story of these steps, none of them taken."""
    return Story.of([(step.key, step.title) for step in steps], asyncio.get_running_loop().time)


async def build(site: Site, story: Story, steps: Sequence[Step], patience: timedelta | None) -> None:
    """Take every step; `TooLate` with reasons when patience ends before that, else what a step raises."""
    current = ""
    try:
        async with asyncio.timeout(None if patience is None else patience.total_seconds()):
            for step in steps:
                current = step.key
                story.begin(step.key)
                story.end(step.key, await step.run(site, lambda text, key=step.key: story.note(key, text)))  # type: ignore[misc]
    except TimeoutError as cause:
        reasons = reasons_of(site, story, current)
        story.fail(current, reasons[0])
        waited = format_duration(patience or timedelta(0))
        log = "" if site.in_memory else f"; the log is {site.folder.log}"  # else it goes with the rest
        raise TooLate(f"not healthy within {waited}: {'; '.join(reasons)}{log}") from cause
    except Exception as failure:
        story.fail(current, str(failure) or type(failure).__name__)
        raise


def reasons_of(site: Site, story: Story, current: str) -> list[str]:
    """Say why a fleet is not healthy yet: what is waited for, what fails, and who is in trouble."""
    line = story.line(current)
    waited = f"{line.title.lower()}: {line.detail or 'under way'}"
    failing = [f"{name} fails: {why}" for name, why in sorted(site.crew.troubles.items())]
    return [waited, *_full_disk(site), *failing, *troubles_of(site.inventory())]


def _full_disk(site: Site) -> list[str]:
    free = shutil.disk_usage(site.folder.path).free
    return [f"the disk of {site.folder.path} is full: free some space"] if free < SPARE_BYTES else []


def troubles_of(inventory: Inventory | None) -> list[str]:
    """Return a sentence for each row that needs attention."""
    if inventory is None:
        return []
    clusters = [f"{row.name}: {row.note}" for row in inventory.clusters if row.health.is_trouble]
    addons = [f"add-on {row.name} on {row.cluster}: {row.note}" for row in inventory.addons if row.health.is_trouble]
    return clusters + addons
