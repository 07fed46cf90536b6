"""Checks of every API server: reachability, identity, clock."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import msgspec

from watchword.admin.doctor.model import Check, CheckContext, CheckFinding, fail, passed, warn
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import MalformedResponse, NotFound, Unauthorized

TOLERABLE_SKEW = timedelta(seconds=30)
HARMFUL_SKEW = timedelta(minutes=5)  # certificates are back-dated by as much


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def reachable(context: CheckContext) -> Iterable[CheckFinding]:
    """Read the version."""
    try:
        version = msgspec.json.decode(await context.client.read("/version"), type=_Version)
    except (msgspec.MsgspecError, MalformedResponse):
        return [fail("something answers that is not a Kubernetes API server", "check the server in the kubeconfig")]
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig, or rejoin")]
    return passed(f"answers, version {version.git_version}")


async def identity(context: CheckContext) -> Iterable[CheckFinding]:
    """Read the own identity."""
    try:
        who = await who_am_i(context.client)
    except NotFound:
        return passed("the server is too old to say who we are")
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig")]
    return passed(f"you are {who.username}")


async def clock(context: CheckContext) -> Iterable[CheckFinding]:
    """Compare the server's clock with ours."""
    await context.client.read("/version")
    return decide_skew_findings(context.client.clock_skew)


def decide_skew_findings(skew: timedelta | None) -> list[CheckFinding]:
    """Validate by how much two clocks differ."""
    if skew is None:
        return passed("the server does not say what time it is")
    where = "ahead of" if skew > timedelta(0) else "behind"
    away = f"the server's clock is {abs(skew.total_seconds()):.0f} s {where} ours"
    if abs(skew) >= HARMFUL_SKEW:
        return [fail(f"{away}: new credentials may not be valid yet, or expire early", "timedatectl set-ntp true")]
    if abs(skew) >= TOLERABLE_SKEW:
        return [warn(away, "timedatectl set-ntp true")]
    return passed("clocks agree")


CHECKS = (
    Check("API server", reachable, required=True),
    Check("identity", identity, required=True),
    Check("clock", clock),
)
