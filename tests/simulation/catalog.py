"""The pillars of a simulated life, and which incidents reach which of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from tests.simulation.access_probes import AccessProber
from tests.simulation.administrator import Administrator
from tests.simulation.fleet import SimulatedFleet
from tests.simulation.incidents import Incident, IncidentRow, draw_incidents
from tests.simulation.pillar import Pillar
from tests.simulation.pillars.accounts import Accounts
from tests.simulation.pillars.addons import Addons
from tests.simulation.pillars.aws_irsa import AwsIrsa
from tests.simulation.pillars.grpc import Grpc
from tests.simulation.pillars.infrastructure import Infrastructure
from tests.simulation.pillars.ocm import Ocm
from tests.simulation.pillars.operator import Operator
from tests.simulation.pillars.pull_secrets import PullSecrets
from tests.simulation.pillars.registration import Registration
from tests.simulation.pillars.works import Works
from tests.simulation.settings import SimulationSettings
from tests.simulation.violations import Violations

BASIC: tuple[type[Pillar], ...] = (Infrastructure, Registration, Addons, Works)
"""In every life."""

FURTHER: tuple[type[Pillar], ...] = (Accounts, PullSecrets, AwsIrsa, Operator, Grpc, Ocm)
"""In lives whose settings name them."""

PILLARS = (*BASIC, *FURTHER)
INCIDENTS: Mapping[str, IncidentRow] = {
    kind: found.row for pillar in PILLARS for kind, found in pillar.incidents().items()
}


def make_pillars(
    fleet: SimulatedFleet, admin: Administrator, prober: AccessProber, violations: Violations
) -> list[Pillar]:
    """Return the pillars of a life."""
    named = set(fleet.settings.pillars)
    if unknown := named - {pillar.name for pillar in FURTHER}:
        raise ValueError(f"there is no pillar {', '.join(unknown)}")
    chosen = [pillar for pillar in PILLARS if pillar in BASIC or pillar.name in named]
    return [pillar(fleet, admin, prober, violations) for pillar in chosen]


def draw_life(settings: SimulationSettings, pillars: Sequence[Pillar]) -> list[Incident]:
    """Return what happens in a life: incidents of its pillars, to clusters that take part in them."""
    rows: dict[str, IncidentRow] = {}
    targets: dict[str, list[str]] = {}
    for pillar in pillars:
        concerned = list(pillar.fleet.members.values()) if isinstance(pillar, Infrastructure) else pillar.members
        for kind, found in pillar.incidents().items():
            if kind in settings.kinds or not settings.kinds:
                rows[kind], targets[kind] = found.row, [member.name for member in concerned]
    return draw_incidents(settings, rows, targets)


def write_patterns(pillars: Sequence[Pillar]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return what the writes of renewals look like, and those that come whatever happens."""
    renewals = (pattern for pillar in pillars for pattern in pillar.renewal_writes)
    routine = (pattern for pillar in pillars for pattern in pillar.routine_writes)
    return re.compile("|".join(renewals)), re.compile("|".join(routine))


def cells() -> Iterator[tuple[str, str]]:
    """Yield every incident with every pillar that it can reach."""
    for pillar in PILLARS:
        for kind, found in pillar.incidents().items():
            reached = PILLARS[1:] if pillar is Infrastructure or found.row.crosses else (pillar,)
            yield from ((kind, other.name) for other in reached if other.at_hub or not found.row.at_hub)
