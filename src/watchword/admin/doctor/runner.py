"""Examines whatever is behind a client: a hub, a cluster, or one that is both."""

from __future__ import annotations

from watchword.admin.doctor import accounts, api_server, cluster, hub, pull_secrets
from watchword.admin.doctor.model import Check, CheckContext, CheckResult, has_no_failure, run_checks
from watchword.api.resources import KLUSTERLETS, MANAGED_CLUSTERS
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound


async def run_doctor(context: CheckContext) -> list[CheckResult]:
    """Return the findings, general ones first; a server that does not respond is not checked further."""
    results = await run_checks(context, api_server.CHECKS)
    if not has_no_failure(results):
        return results
    pulls = [result for result in await run_checks(context, pull_secrets.CHECKS) if result.findings]
    checks = await choose_checks(context.client, alone=bool(pulls))
    results += [result for result in await run_checks(context, checks) if result.findings]
    return [*results, *pulls]


async def choose_checks(client: Client, *, alone: bool = False) -> tuple[Check, ...]:
    """Return the questions that make sense here; a cluster with pull secrets alone need not be in a fleet."""
    is_hub = await _serves(client, MANAGED_CLUSTERS.path())
    may_have_joined = await _serves(client, KLUSTERLETS.path())
    has_joined = may_have_joined and await _has_any(client)
    if is_hub:
        return (*hub.CHECKS, *accounts.CHECKS, *(cluster.CHECKS if has_joined else ()))
    return () if alone and not may_have_joined else cluster.CHECKS


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
