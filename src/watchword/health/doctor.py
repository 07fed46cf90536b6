"""Examines whatever is behind a client: a hub, a cluster, or one that is both."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from watchword.accounts.metrics import AccountPhase, decide_phase
from watchword.api.meta import Object, ObjectKey
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import CONFIG_MAPS, KLUSTERLETS, MANAGED_CLUSTERS
from watchword.health import cluster_checks, hub_checks
from watchword.health.checks import (
    Check,
    CheckContext,
    CheckFinding,
    CheckResult,
    Level,
    fail,
    has_no_failure,
    passed,
    run_checks,
    warn,
)
from watchword.health.formatting import format_count
from watchword.health.inventory import decide_each
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, MalformedResponse, NotFound, Unauthorized
from watchword.pullsecrets.inventory import PullSecretHealth, PullSecretRow, list_pull_secrets
from watchword.pullsecrets.settings import validate_configuration

LIST_ACCOUNTS = "watchword serviceaccount list"


async def managed_accounts(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at every account; say nothing where there are none."""
    return decide_account_findings((await context.facts()).accounts)


def decide_account_findings(accounts: Sequence[Object]) -> list[CheckFinding]:
    """Judge the accounts by the worst of them; tokens about to expire are found with all other credentials."""
    found: dict[AccountPhase, list[str]] = {phase: [] for phase in AccountPhase}
    for account in accounts:
        phase = next(decide_each([account], decide_phase, lambda _, __: AccountPhase.FAILED))
        found[phase].append(str(ObjectKey.of(account)))
    findings = []
    if failed := found[AccountPhase.FAILED]:
        count = format_count(len(failed), "managed service account")
        findings.append(fail(f"{count} not on all clusters or without a token, first {failed[0]}", LIST_ACCOUNTS))
    if revoking := found[AccountPhase.REVOKING]:
        count = format_count(len(revoking), "deleted account")
        findings.append(warn(f"{count} not confirmed as revoked, first {revoking[0]}", LIST_ACCOUNTS))
    if waiting := found[AccountPhase.WAITING]:
        count = format_count(len(waiting), "managed service account")
        enable = "watchword addon enable managed-serviceaccount -c CLUSTER"
        findings.append(warn(f"{count} of which no agent has reported, first {waiting[0]}", enable))
    if findings or not accounts:
        return findings
    return passed(f"{format_count(len(accounts), 'managed service account')}, all with a token")


ACCOUNT_CHECKS = (Check("managed service accounts", managed_accounts),)


TOLERABLE_SKEW = timedelta(seconds=30)
HARMFUL_SKEW = timedelta(minutes=5)  # certificates are back-dated by as much


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


async def reachable(context: CheckContext) -> Iterable[CheckFinding]:
    try:
        version = msgspec.json.decode(await context.client.read("/version"), type=_Version)
    except (msgspec.MsgspecError, MalformedResponse):
        return [fail("something answers that is not a Kubernetes API server", "check the server in the kubeconfig")]
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig, or rejoin")]
    return passed(f"answers, version {version.git_version}")


async def identity(context: CheckContext) -> Iterable[CheckFinding]:
    try:
        who = await who_am_i(context.client)
    except NotFound:
        return passed("the server does not serve SelfSubjectReview")
    except Unauthorized:
        return [fail("the server does not accept this credential", "get a new kubeconfig")]
    return passed(f"you are {who.username}")


async def clock(context: CheckContext) -> Iterable[CheckFinding]:
    await context.client.read("/version")
    return decide_skew_findings(context.client.clock_skew)


def decide_skew_findings(skew: timedelta | None) -> list[CheckFinding]:
    if skew is None:
        return passed("the server does not say what time it is")
    where = "ahead of" if skew > timedelta(0) else "behind"
    away = f"the server's clock is {abs(skew.total_seconds()):.0f} s {where} ours"
    if abs(skew) >= HARMFUL_SKEW:
        return [fail(f"{away}: new credentials may not be valid yet, or expire early", "timedatectl set-ntp true")]
    if abs(skew) >= TOLERABLE_SKEW:
        return [warn(away, "timedatectl set-ntp true")]
    return passed("clocks agree")


API_SERVER_CHECKS = (
    Check("API server", reachable, required=True),
    Check("identity", identity, required=True),
    Check("clock", clock),
)


LIST_PULL_SECRETS = "watchword pull-secrets list --unhealthy"
BROKEN = (PullSecretHealth.EXPIRED, PullSecretHealth.CORRUPT, PullSecretHealth.EMPTY)


async def pull_secrets(context: CheckContext) -> Iterable[CheckFinding]:
    """Look at every pull secret; say nothing where there are none, or where Secrets may not be listed."""
    try:
        rows = await list_pull_secrets(context.client, now=context.clock.now())
        config = await context.client.find(CONFIG_MAPS, CONFIGURATION)
    except Forbidden:
        return []
    objection = "" if config is None else validate_configuration(config.get("data") or {})
    if not objection:
        return decide_pull_secret_findings(rows)
    edit = f"kubectl edit configmap -n {CONFIGURATION.namespace} {CONFIGURATION.name}"
    refused = fail(f"the ConfigMap {CONFIGURATION} is not followed: {objection}", edit)
    return [refused, *(row for row in decide_pull_secret_findings(rows) if row.level is not Level.OK)]


def decide_pull_secret_findings(rows: Sequence[PullSecretRow]) -> list[CheckFinding]:
    broken = [row for row in rows if row.health in BROKEN]
    overdue = [row for row in rows if row.health is PullSecretHealth.OVERDUE]
    legacy = [row for row in rows if row.health is PullSecretHealth.LEGACY]
    findings = []
    if broken:
        first = broken[0]
        count = format_count(len(broken), "pull secret")
        findings.append(fail(f"{count} cannot be used; {first.key} is {first.health.value}", LIST_PULL_SECRETS))
    if overdue:
        findings.append(
            warn(f"{format_count(len(overdue), 'pull secret')} should have been renewed by now", LIST_PULL_SECRETS)
        )
    if legacy:
        count = format_count(len(legacy), "pull secret")
        findings.append(
            warn(f"{count} made from long-lived tokens", "kubectl get secrets -A -l openshift.io/legacy-token")
        )
    return findings or (passed(f"{format_count(len(rows), 'pull secret')}, all renewed in time") if rows else [])


PULL_SECRET_CHECKS = (Check("image pull secrets", pull_secrets),)


async def run_doctor(context: CheckContext) -> list[CheckResult]:
    """Return the findings, general ones first; a server that does not respond is not checked further."""
    results = await run_checks(context, API_SERVER_CHECKS)
    if not has_no_failure(results):
        return results
    pulls = [result for result in await run_checks(context, PULL_SECRET_CHECKS) if result.findings]
    checks = await choose_checks(context.client, alone=bool(pulls))
    results += [result for result in await run_checks(context, checks) if result.findings]
    return [*results, *pulls]


async def choose_checks(client: Client, *, alone: bool = False) -> tuple[Check, ...]:
    """Return the questions that make sense here; a cluster with pull secrets alone need not be in a fleet."""
    is_hub = await _serves(client, MANAGED_CLUSTERS.path())
    may_have_joined = await _serves(client, KLUSTERLETS.path())
    has_joined = may_have_joined and await _has_any(client)
    if is_hub:
        return (*hub_checks.CHECKS, *ACCOUNT_CHECKS, *(cluster_checks.CHECKS if has_joined else ()))
    return () if alone and not may_have_joined else cluster_checks.CHECKS


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
