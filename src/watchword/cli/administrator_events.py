"""Records what an administrator decides by a command: an Event on the hub; with `-v`, also a line on standard error."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from random import SystemRandom

import click

from watchword.api.meta import ObjectKey
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import NAMESPACES
from watchword.cli.output import echo
from watchword.cli.process_options import identity
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.runtime.clock import SystemClock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.logs import configure_logging
from watchword.runtime.metrics import Metrics

PATIENCE = timedelta(seconds=10)
HUB = NAMESPACES.manifest(ObjectKey.cluster(HUB_NAMESPACE))
"""What Events about the whole hub are about: Kubernetes stores them in the namespace `default`."""


@asynccontextmanager
async def administrator_events(client: Client, command: str) -> AsyncIterator[tuple[EventRecorder, str]]:
    """Yield what records the decisions of a command, and the administrator's name as the hub authenticates it.

    Events are sent at the end; a line says how many were not stored.
    """
    verbosity = click.get_current_context().find_root().obj
    configure_logging(level="debug" if verbosity > 1 else "info" if verbosity else "warning")
    counts = Metrics()
    recorder = EventRecorder(
        client, f"watchword.dev/{command}", identity(), clock=SystemClock(), random=SystemRandom(), counts=counts
    )
    yield recorder, (await who_am_i(client)).username
    await recorder.flush(PATIENCE)
    dropped = counts.registry.get_sample_value("watchword_events_dropped_total")
    if dropped:
        echo(f"{dropped:.0f} events were not stored: may you create events in these namespaces?", err=True)
