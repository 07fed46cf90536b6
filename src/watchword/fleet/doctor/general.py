"""What is asked of every API server: does it answer, who are we, do the clocks agree."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from watchword.fleet.doctor.model import Check, Finding, Patient, fail, warn, well
from watchword.kube.errors import MalformedAnswer, NotFound, Unauthorized
from watchword.kube.reviews import who_am_i

TOLERABLE_SKEW = timedelta(seconds=30)
HARMFUL_SKEW = timedelta(minutes=5)  # certificates are back-dated by as much


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def reachable(patient: Patient) -> Iterable[Finding]:
    """Ask for the version."""
    try:
        version = msgspec.json.decode(await patient.client.read("/version"), type=_Version)
    except (msgspec.MsgspecError, MalformedAnswer):
        return [fail("something answers that is not a Kubernetes API server", "check the server in the kubeconfig")]
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig, or rejoin")]
    return well(f"answers, version {version.git_version}")


async def identity(patient: Patient) -> Iterable[Finding]:
    """Ask who the server takes us for."""
    try:
        who = await who_am_i(patient.client)
    except NotFound:
        return well("the server is too old to say who we are")
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig")]
    return well(f"you are {who.username}")


async def clock(patient: Patient) -> Iterable[Finding]:
    """Compare the server's clock with ours."""
    await patient.client.read("/version")
    return judge_skew(patient.client.clock_skew)


def judge_skew(skew: timedelta | None) -> list[Finding]:
    """Judge by how much two clocks differ."""
    if skew is None:
        return well("the server does not say what time it is")
    where = "ahead of" if skew > timedelta(0) else "behind"
    away = f"the server's clock is {abs(skew.total_seconds()):.0f} s {where} ours"
    if abs(skew) >= HARMFUL_SKEW:
        return [fail(f"{away}: new credentials may not be valid yet, or expire early", "timedatectl set-ntp true")]
    if abs(skew) >= TOLERABLE_SKEW:
        return [warn(away, "timedatectl set-ntp true")]
    return well("clocks agree")


CHECKS = (
    Check("API server", reachable, vital=True),
    Check("identity", identity, vital=True),
    Check("clock", clock),
)
