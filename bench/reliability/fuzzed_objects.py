"""Damaged objects for every reconcile loop of a running fleet: no program may fail or log an unexpected error."""

from __future__ import annotations

import base64
from functools import partial
from random import Random
from typing import Any

import orjson
from tests.simulation.settings import MINUTE

from bench.reliability.fleet import CredentialFleet, FleetSize
from bench.reliability.life import start_everything
from bench.reliability.mutation import mutate
from bench.reliability.virtual_run import VirtualRun, pass_time, run_and_capture
from watchword.api import resources
from watchword.api.meta import Object, Resource
from watchword.kube.errors import KubeError

KINDS = (
    resources.MANAGED_CLUSTERS,
    resources.MANAGED_CLUSTER_ADDONS,
    resources.MANAGED_SERVICE_ACCOUNTS,
    resources.CLUSTER_MANAGEMENT_ADDONS,
    resources.CERTIFICATE_SIGNING_REQUESTS,
    resources.SECRETS,
    resources.SERVICE_ACCOUNTS,
    resources.CONFIG_MAPS,
    resources.LEASES,
    resources.ROLE_BINDINGS,
    resources.CLUSTER_ROLES,
    resources.KLUSTERLETS,
    resources.CLUSTER_MANAGERS,
    resources.MANIFEST_WORKS,
    resources.APPLIED_MANIFEST_WORKS,
    resources.MANAGED_CLUSTER_SETS,
    resources.MANAGED_CLUSTER_SET_BINDINGS,
    resources.ADDON_TEMPLATES,
    resources.ADDON_DEPLOYMENT_CONFIGS,
)
ODD_VALUES: tuple[Any, ...] = (
    "",
    "x" * 300,
    "\x00",
    "-1",
    "<b>",
    "2026-99-99T00:00:00Z",
    0,
    -1,
    2**53,
    10**15,
    2**63 - 1,
    "9999-12-31T23:59:59Z",
    None,
    True,
    [],
    {},
)
TOGETHER = 20  # objects that are changed before the reconcilers get time


def fuzz_reconcilers(cases: int, random: Random) -> list[str]:
    """Change objects of a running fleet; return what its programs did not handle."""
    size = FleetSize()
    (exits, _), log = run_and_capture(partial(_fuzz, cases, random), size, VirtualRun(seed=random.randrange(10**6)))
    return [*exits, *(f"reconcile loops: {line[:2000]}" for line in log.errors)]


async def _fuzz(cases: int, random: Random, fleet: CredentialFleet) -> tuple[list[str], int]:
    await start_everything(fleet)
    await pass_time(MINUTE)
    accepted = 0
    for number in range(cases):
        kind = random.choice(KINDS)
        found = (await fleet.client.list(kind)).items
        if found:
            accepted += await _write(fleet, kind, damaged(random.choice(found), random))
        if number % TOGETHER == TOGETHER - 1:
            await pass_time(MINUTE)
    await pass_time(10 * MINUTE)
    exits = [exit_ for process in fleet.processes.values() for exit_ in process.unexpected_exits]
    return exits, accepted


async def _write(fleet: CredentialFleet, kind: Resource, obj: Object) -> bool:
    """Store a damaged object, or its status; the API server refuses many."""
    subresource = "status" if "status" in obj and len(str(obj)) % 2 else ""
    try:
        await fleet.client.update(kind, obj, subresource=subresource)
    except KubeError:
        return False
    return True


def damaged(obj: Object, random: Random) -> Object:
    """Return the object with some values replaced, removed or damaged; its name stays."""
    copy: Object = orjson.loads(orjson.dumps(obj))
    for _ in range(random.randint(1, 3)):
        part = copy if random.random() < 0.3 else copy.get(random.choice(("spec", "status", "data", "metadata")), copy)
        _damage(part, random)
    kept = {name: obj["metadata"][name] for name in ("name", "namespace") if name in obj["metadata"]}
    left = copy.get("metadata")
    copy["metadata"] = {**(left if isinstance(left, dict) else {}), **kept}
    copy["metadata"].pop("resourceVersion", None)
    return copy


def _damage(part: Any, random: Random) -> None:
    """Go down a random path and change what is there."""
    while isinstance(part, dict | list) and part:
        place = random.choice(list(part)) if isinstance(part, dict) else random.randrange(len(part))
        below = part[place]
        if isinstance(below, dict | list) and below and random.random() < 0.7:
            part = below
            continue
        if isinstance(below, str) and random.random() < 0.5:
            part[place] = _damaged_text(below, random)
        elif isinstance(part, dict) and random.random() < 0.3:
            del part[place]
        else:
            part[place] = random.choice(ODD_VALUES)
        return


def _damaged_text(text: str, random: Random) -> str:
    """Damage a text, or what it encodes."""
    try:
        inner = base64.b64decode(text, validate=True)
    except ValueError:
        return mutate((text.encode(),), random).decode(errors="replace")
    return base64.b64encode(mutate((inner or b"x",), random)).decode()
