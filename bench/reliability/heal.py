"""Every state heals once its cause is gone: each is broken on purpose, and the time until all is well again is printed.

Production timing in virtual time, on the fleet with every kind of credential. Where a cause lasts, it lasts for a
minute and a half and is then removed; elsewhere the change itself is what has to heal.
"""

from __future__ import annotations

import argparse
import base64
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from tests.simulation.settings import MINUTE

from bench.reliability.credentials import CredentialKind, CredentialPlace
from bench.reliability.figure import Figure, markdown_table
from bench.reliability.fleet import ADDON, REGISTRY, CredentialFleet, FleetSize
from bench.reliability.virtual_run import pass_time, run_fleet_virtually
from watchword.api.accounts import ADDON_NAME as ACCOUNTS_ADDON
from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Annotation, ConditionType, Label, cluster_role
from watchword.api.pull_secrets import DOCKERCFG_KEY
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339
from watchword.kube.errors import AlreadyExists
from watchword.testing.eventually import eventually, is_gone

LOOK_EVERY = timedelta(seconds=1)
CAUSE_LASTS = timedelta(seconds=90)
BOUND = timedelta(minutes=10)

Step = Callable[[CredentialFleet], Awaitable[None]]
Test = Callable[[CredentialFleet], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class State:
    """What is broken, how it is told that all is well, and what removes the cause."""

    what: str
    breaks: Step
    is_well: Test
    mends: Step | None = None  # None: nothing has to be removed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--only", default="", help="states whose name contains this")


def measure(options: argparse.Namespace) -> Figure:
    """Return how long the slowest state took to heal."""
    chosen = [state for state in STATES if options.only in state.what]
    found = run_fleet_virtually(lambda fleet: heal_all(fleet, chosen), FleetSize())
    rows = [(what, "never" if seconds is None else f"{seconds:.0f} s") for what, seconds in found.items()]
    healed = [seconds for seconds in found.values() if seconds is not None]
    line = f"{len(healed)} of {len(found)} states healed, the slowest after {max(healed, default=0):.0f} s"
    return Figure(line, bool(found) and len(healed) == len(found), markdown_table(("state", "healed after"), rows))


async def heal_all(
    fleet: CredentialFleet, states: Sequence[State], pause: timedelta = 2 * MINUTE, cause_lasts: timedelta = CAUSE_LASTS
) -> dict[str, float | None]:
    """Break one state after the other; each begins with everything well, and a pause after the one before."""
    found = {}
    for state in states:
        await state.breaks(fleet)
        if state.mends is not None:
            await pass_time(cause_lasts)
            await state.mends(fleet)
        found[state.what] = await _seconds_until(fleet, state.is_well)
        await _seconds_until(fleet, all_work)
        await pass_time(pause)
    return found


async def _seconds_until(fleet: CredentialFleet, test: Test) -> float | None:
    for second in range(int(BOUND / LOOK_EVERY)):
        await pass_time(LOOK_EVERY)
        if await test(fleet):
            return float(second + 1)
    return None


async def all_work(fleet: CredentialFleet) -> bool:
    """Whether the server honours every credential."""
    return not await fleet.failing()


def _place(fleet: CredentialFleet, kind: CredentialKind) -> CredentialPlace:
    return fleet.places_of(kind)[0]


def _works(kind: CredentialKind) -> Test:
    async def test(fleet: CredentialFleet) -> bool:
        return await _place(fleet, kind).works(fleet.plane)

    return test


def _patched(resource: Resource, key: Callable[[CredentialFleet], ObjectKey], patch: Object) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        await fleet.client.patch(resource, key(fleet), patch)

    return step


def _deleted(resource: Resource, key: Callable[[CredentialFleet], ObjectKey]) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        await fleet.client.delete(resource, key(fleet))

    return step


def _secret_of(kind: CredentialKind) -> Callable[[CredentialFleet], ObjectKey]:
    return lambda fleet: _place(fleet, kind).secret


def _cluster(fleet: CredentialFleet, kind: CredentialKind) -> str:
    return _place(fleet, kind).secret.namespace


def _account(fleet: CredentialFleet) -> ObjectKey:
    return _place(fleet, CredentialKind.ACCOUNT).secret


def _token_role(fleet: CredentialFleet) -> ObjectKey:
    return ObjectKey(_cluster(fleet, CredentialKind.ADDON_TOKEN), f"{ADDON}-token-role")


async def _change_signing_key(fleet: CredentialFleet) -> None:
    await fleet.plane.rotate_signing_key(keep_old=False)


async def _obstruct_addon(fleet: CredentialFleet) -> None:
    """Put a Role of another hand in the place of the add-on's."""
    key = _token_role(fleet)
    addon = ObjectKey(key.namespace, ADDON)
    await fleet.client.delete(MANAGED_CLUSTER_ADDONS, addon)
    await eventually(fleet.client, ROLES, key, is_gone, within=120)
    await fleet.client.create(ROLES, ROLES.manifest(key, rules=[]))
    await fleet.enable_addon(key.namespace, ADDON)


async def _obstruct_account(fleet: CredentialFleet) -> None:
    """Replace the ServiceAccount of an account by one of another hand."""
    key = _account(fleet)
    await fleet.client.delete(SERVICE_ACCOUNTS, key)
    try:
        await fleet.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key))
    except AlreadyExists:  # the agent was faster
        await fleet.client.patch(SERVICE_ACCOUNTS, key, {"metadata": {"labels": None, "annotations": None}})


async def _revoke_unmarked(fleet: CredentialFleet) -> None:
    """Delete an account whose ServiceAccount has lost its marks: its tokens end with it alone."""
    key = _account(fleet)
    marks = {"labels": {Label.MANAGED_ACCOUNT: None}, "annotations": {Annotation.ACCOUNT_UID: None}}
    await fleet.client.patch(SERVICE_ACCOUNTS, key, {"metadata": marks})
    await fleet.client.delete(MANAGED_SERVICE_ACCOUNTS, key)


async def _is_truly_revoked(fleet: CredentialFleet) -> bool:
    """Whether account and ServiceAccount are gone, and with it every token; declares the account again."""
    key = _account(fleet)
    if await fleet.client.find(MANAGED_SERVICE_ACCOUNTS, key) is not None:
        return False
    gone = await fleet.client.find(SERVICE_ACCOUNTS, key) is None
    spec = {"rotation": {"validity": f"{int(fleet.size.lifetime.total_seconds())}s"}}
    await fleet.client.create(MANAGED_SERVICE_ACCOUNTS, MANAGED_SERVICE_ACCOUNTS.manifest(key, spec=spec))
    return gone


async def _is_dead_token_gone(fleet: CredentialFleet) -> bool:
    """Whether nothing hands out a token that the add-on's end has made worthless; enables it again."""
    key = _account(fleet)
    account = await fleet.client.get(MANAGED_SERVICE_ACCOUNTS, key)
    if is_true(account, ConditionType.TOKEN_REPORTED) or await fleet.client.find(SECRETS, key) is not None:
        return False
    await fleet.enable_addon(key.namespace, ACCOUNTS_ADDON)
    return True


async def _change_registries(fleet: CredentialFleet) -> None:
    for number in range(8):
        await _configure(fleet, f"{REGISTRY} mirror-{number}.example")
        await pass_time(timedelta(seconds=4))
    await _configure(fleet, f"{REGISTRY} last.example")


async def _configure(fleet: CredentialFleet, registries: str) -> None:
    patch = {"data": {"registries": registries}}
    await fleet.client.patch(CONFIG_MAPS, fleet.pull_secret_settings, patch)


async def _has_last_registry(fleet: CredentialFleet) -> bool:
    secret = await fleet.client.find(SECRETS, _place(fleet, CredentialKind.PULL_SECRET).secret) or {}
    return b"last.example" in base64.b64decode((secret.get("data") or {}).get(DOCKERCFG_KEY, ""))


async def _damage_configuration(fleet: CredentialFleet) -> None:
    await _configure(fleet, "https://not-a-registry")


async def _mend_configuration(fleet: CredentialFleet) -> None:
    await _configure(fleet, f"{REGISTRY} last.example")


async def _request_rotation(fleet: CredentialFleet) -> None:
    """Request a renewal twice, the second while the first is under way."""
    cluster = ObjectKey.cluster(_cluster(fleet, CredentialKind.ADDON_TOKEN))
    for _ in range(2):
        patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(fleet.plane.clock.now())}}}
        await fleet.client.patch(MANAGED_CLUSTERS, cluster, patch)
        await pass_time(timedelta(seconds=1))


async def _is_nothing_undecided(fleet: CredentialFleet) -> bool:
    found = await fleet.client.list(CERTIFICATE_SIGNING_REQUESTS)
    return all((csr.get("status") or {}).get("conditions") for csr in found.items)


def _binding(fleet: CredentialFleet) -> ObjectKey:
    return ObjectKey.cluster(cluster_role(_cluster(fleet, CredentialKind.ADDON_TOKEN)))


async def _has_binding(fleet: CredentialFleet) -> bool:
    return await fleet.client.find(CLUSTER_ROLE_BINDINGS, _binding(fleet)) is not None


def _accepted(*, accepted: bool) -> Step:
    async def step(fleet: CredentialFleet) -> None:
        key = ObjectKey.cluster(_cluster(fleet, CredentialKind.ADDON_TOKEN))
        await fleet.client.patch(MANAGED_CLUSTERS, key, {"spec": {"hubAcceptsClient": accepted}})

    return step


TOKEN, ACCOUNT, PULL = CredentialKind.ADDON_TOKEN, CredentialKind.ACCOUNT, CredentialKind.PULL_SECRET
SCRIBBLE = {"token": "c2NyaWJibGU="}
STATES = (
    State("signing key changed: every token", _change_signing_key, all_work),
    State(
        "add-on: a Role of another hand is in the way",
        _obstruct_addon,
        _works(TOKEN),
        _deleted(ROLES, _token_role),
    ),
    State("add-on: credential deleted", _deleted(SECRETS, _secret_of(TOKEN)), _works(TOKEN)),
    State("add-on: token overwritten", _patched(SECRETS, _secret_of(TOKEN), {"data": SCRIBBLE}), _works(TOKEN)),
    State("account: token Secret deleted", _deleted(SECRETS, _account), _works(ACCOUNT)),
    State("account: token overwritten", _patched(SECRETS, _account, {"data": SCRIBBLE}), _works(ACCOUNT)),
    State("account: ServiceAccount deleted", _deleted(SERVICE_ACCOUNTS, _account), _works(ACCOUNT)),
    State(
        "account: a ServiceAccount of another hand is in the way",
        _obstruct_account,
        _works(ACCOUNT),
        _deleted(SERVICE_ACCOUNTS, _account),
    ),
    State("account: deleted after its marks were removed", _revoke_unmarked, _is_truly_revoked),
    State(
        "account: add-on disabled, its tokens are dead",
        _deleted(MANAGED_CLUSTER_ADDONS, lambda fleet: ObjectKey(_account(fleet).namespace, ACCOUNTS_ADDON)),
        _is_dead_token_gone,
    ),
    State("pull secret: registries changed nine times in 32 s", _change_registries, _has_last_registry),
    State("pull secret: configuration damaged", _damage_configuration, _has_last_registry, _mend_configuration),
    State("pull secret: deleted", _deleted(SECRETS, _secret_of(PULL)), _works(PULL)),
    State(
        "pull secret: overwritten",
        _patched(SECRETS, _secret_of(PULL), {"data": {DOCKERCFG_KEY: "e30="}}),
        _works(PULL),
    ),
    State("cluster: renewal requested twice", _request_rotation, _is_nothing_undecided),
    State("cluster: binding deleted", _deleted(CLUSTER_ROLE_BINDINGS, _binding), _has_binding),
    State("cluster: denied, and accepted again", _accepted(accepted=False), all_work, _accepted(accepted=True)),
)
