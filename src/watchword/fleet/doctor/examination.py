"""Examines whatever is behind a client: a hub, a cluster, or one that is both."""

from __future__ import annotations

from watchword.api.resources import KLUSTERLETS, MANAGED_CLUSTERS
from watchword.fleet.doctor import cluster, general, hub
from watchword.fleet.doctor.model import Check, Patient, Result, examine, is_well
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound


async def examine_all(patient: Patient) -> list[Result]:
    """Return what was found, the general first; nothing more is asked of a server that does not answer."""
    results = await examine(patient, general.CHECKS)
    if not is_well(results):
        return results
    return [*results, *await examine(patient, await choose_checks(patient.client))]


async def choose_checks(client: Client) -> tuple[Check, ...]:
    """Return the questions that make sense here."""
    is_hub = await _serves(client, MANAGED_CLUSTERS.path())
    has_joined = await _serves(client, KLUSTERLETS.path()) and await _has_any(client)
    if is_hub:
        return (*hub.CHECKS, *(cluster.CHECKS if has_joined else ()))
    return cluster.CHECKS


async def _serves(client: Client, path: str) -> bool:
    try:
        await client.read(path, query={"limit": "1"})
    except NotFound:
        return False
    except KubeError:
        return True
    return True


async def _has_any(client: Client) -> bool:
    try:
        return bool((await client.list(KLUSTERLETS)).items)
    except KubeError:
        return False
