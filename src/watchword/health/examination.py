"""Examines what is behind a client, a hub, a cluster or both, for `doctor` and `status --check`."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from watchword.api import resources
from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.health.audit_log import CredentialUsage
from watchword.health.cluster_side import decide_cluster_findings, read_cluster_facts
from watchword.health.errors import UnknownCluster
from watchword.health.facts import UNKNOWN_KIND, HubFacts, narrow_to_cluster
from watchword.health.finding import CheckResult, Finding, fail, notice, passed, warn
from watchword.health.formatting import format_age, format_count
from watchword.health.hub_reader import read_hub_facts, require_fleet
from watchword.health.hub_rules import INIT, HubState, decide_hub_findings, decide_table_findings
from watchword.health.inventory import build_inventory
from watchword.health.row_findings import member_command
from watchword.kube.access_reviews import ResourceAccess, can_i, who_am_i
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, KubeError, MalformedResponse, NotFound, Unauthorized, Unreachable
from watchword.operator.cluster_manager import enabled_drivers
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import RequestsCertificate
from watchword.registration.hub.cluster_acceptance import AcceptanceGuard
from watchword.registration.hub.cluster_lease import renewal_time
from watchword.registration.hub.installation import UNGUARDED
from watchword.runtime.clock import Clock

TOLERABLE_SKEW = timedelta(seconds=30)
HARMFUL_SKEW = timedelta(minutes=5)  # certificates are back-dated by as much
RIGHTS = {
    "accept clusters": ResourceAccess("update", resources.MANAGED_CLUSTERS),
    "approve certificate requests": ResourceAccess(
        "update", resources.CERTIFICATE_SIGNING_REQUESTS, subresource="approval"
    ),
    "make join tokens": ResourceAccess("create", resources.SECRETS, ObjectKey("kube-system", "")),
    "enable add-ons": ResourceAccess("create", resources.MANAGED_CLUSTER_ADDONS),
}
"""What a hub's administrator does."""


WORK_CONDITIONS = ("Applied", "Available")


class _Version(msgspec.Struct, rename="camel"):
    git_version: str = ""


class Examination(msgspec.Struct, frozen=True):
    """Reads the facts once and lets the rules decide; without `probe_signer`, only by looking."""

    client: Client
    clock: Clock
    usage: CredentialUsage | None = None
    probe_signer: Callable[[], Awaitable[str]] | None = None  # says why certificates cannot be had
    catalog: Catalog = CATALOG

    async def run(self, cluster: str = "") -> list[CheckResult]:
        """Return what was found, general things first, or of one cluster of a hub; `UnknownCluster`, `NotAHub`.

        A server that does not respond is not examined further.
        """
        server = await self._examine_server()
        if any(finding.severity.needs_attention for finding in server):
            return [CheckResult("API server", server)]
        skew = self.client.clock_skew
        now = self.clock.now() + (skew or timedelta(0))  # other clocks renew leases: the server's is the nearest
        facts = await read_hub_facts(self.client, usage=self.usage)
        general = [CheckResult("API server", server), CheckResult("clock", decide_skew_findings(skew))]
        if cluster:
            return [*general, *await self._examine_member(require_fleet(facts), cluster, now)]
        return [*general, *await self._examine_all(facts, now)]

    async def _examine_all(self, facts: HubFacts, now: datetime) -> list[CheckResult]:
        results, is_hub = list[CheckResult](), facts.unseen.get("clusters") != UNKNOWN_KIND
        if is_hub:
            results += decide_hub_findings(facts, now=now, catalog=self.catalog)
            results += await self._probe(HubState(facts, now, self.catalog))
        own = await read_cluster_facts(self.client, self.catalog)
        if own.klusterlets or not is_hub:
            results += decide_cluster_findings(own, now=now, catalog=self.catalog, alone=bool(facts.pull_secrets))
        if not is_hub and facts.pull_secrets:
            inventory = build_inventory(HubFacts(pull_secrets=facts.pull_secrets), now=now)
            tables = decide_table_findings(inventory)
            results += [CheckResult("pull secrets", each.findings) for each in tables if each.check == "credentials"]
        return results

    async def _examine_member(self, facts: HubFacts, name: str, now: datetime) -> list[CheckResult]:
        """Examine one cluster from its hub, with what the hub itself lacks."""
        own = narrow_to_cluster(facts, name)
        if not own.clusters and "clusters" not in facts.unseen:
            raise UnknownCluster(f"this hub has no cluster {name}: `watchword clusters` lists all")
        results = decide_hub_findings(own, now=now, catalog=self.catalog)
        results = [CheckResult(each.check, [_on_the_cluster(row, name) for row in each.findings]) for each in results]
        lease = next((renewal_time(lease) for lease in own.leases), None)
        renewed = (
            f"its agent renewed its lease {format_age(now - lease)} ago" if lease is not None else "it has no lease"
        )
        works = (await self.client.list(resources.MANIFEST_WORKS, namespace=name)).items
        return [*results, CheckResult("lease", passed(renewed)), CheckResult("works", decide_work_findings(works))]

    async def _examine_server(self) -> list[Finding]:
        try:
            version = msgspec.json.decode(await self.client.read("/version"), type=_Version)
            who = (await who_am_i(self.client)).username
        except (msgspec.MsgspecError, MalformedResponse):
            wrong = "something answers that is not a Kubernetes API server"
            return [fail("NotKubernetes", wrong, "kubectl config view --minify   # names the server that is asked")]
        except Unauthorized:
            refused = "the server does not accept this credential"
            return [fail("CredentialRefused", refused, "kubectl config view --minify   # names the user")]
        except NotFound:  # Kubernetes before 1.28 does not serve SelfSubjectReview
            who = "not known to the server by name"
        except Unreachable as error:
            look = "kubectl config view --minify   # names the server: does it run?"
            return [fail("ServerUnreachable", f"the server does not answer: {error}", look)]
        except KubeError as error:
            return [fail("ServerFails", f"the server cannot be examined: {error}", "kubectl version")]
        return passed(f"answers, version {version.git_version}; you are {who}")

    async def _probe(self, state: HubState) -> list[CheckResult]:
        """Try what cannot be read: rights, the admission policy, the signer."""
        results = []
        for name, probe in (
            ("rights", self._examine_rights()),
            ("guard", self._examine_guard()),
            ("issuing", self._examine_signer(state)),
        ):
            try:
                results.append(CheckResult(name, await probe))
            except KubeError as error:
                results.append(CheckResult(name, [warn("NotChecked", f"this could not be checked: {error}")]))
        return results

    async def _examine_rights(self) -> Sequence[Finding]:
        missing = {name: access for name, access in RIGHTS.items() if not await can_i(self.client, access)}
        return [
            notice("NoRight", f"you may not {name}", f"kubectl auth can-i {access.verb} {access.resource.plural}")
            for name, access in missing.items()
        ] or passed("you may do everything that an administrator does")

    async def _examine_guard(self) -> Sequence[Finding]:
        """Try, without storing anything, whether an untrusted client could accept a cluster."""
        try:
            holds = await AcceptanceGuard(self.client, self.clock).is_enforced()
        except Forbidden:
            return [notice("NotTried", "you may not impersonate: whether clusters can accept themselves was not tried")]
        return passed("a joining cluster cannot accept itself") if holds else [fail("Unguarded", UNGUARDED, INIT)]

    async def _examine_signer(self, state: HubState) -> Sequence[Finding]:
        drivers = enabled_drivers(state.manager, self.catalog)
        if self.probe_signer is None:
            return passed("not tried")
        if not any(isinstance(driver, RequestsCertificate) and driver.signer for driver in drivers):
            return passed("not tried: clusters register without certificates here")
        problem = await self.probe_signer()
        mend = f"let a signer for {KUBE_CLIENT_SIGNER} run, as kube-controller-manager does"
        return [fail("NoSigner", problem, mend)] if problem else passed("certificates are issued")


def _on_the_cluster(finding: Finding, name: str) -> Finding:
    """Point from `doctor --cluster`, which sees no more, to `doctor` on the cluster itself."""
    if finding.command != member_command(name):
        return finding
    there = f"watchword doctor   # with the kubeconfig of {name}: it sees the agent's pods and credential"
    return replace(finding, command=there)


def decide_skew_findings(skew: timedelta | None) -> list[Finding]:
    if skew is None:
        return passed("the server does not say what time it is")
    where = "ahead of" if skew > timedelta(0) else "behind"
    away = f"the server's clock is {abs(skew.total_seconds()):.0f} s {where} ours"
    if abs(skew) >= HARMFUL_SKEW:
        harm = f"{away}: new credentials may not be valid yet, or expire early"
        return [fail("ClockSkewed", harm, "timedatectl set-ntp true")]
    if abs(skew) >= TOLERABLE_SKEW:
        return [warn("ClockSkewed", away, "timedatectl set-ntp true")]
    return passed("clocks agree")


def decide_work_findings(works: Sequence[Object]) -> list[Finding]:
    """Name works that their cluster has not applied, or whose objects are not available."""
    findings = []
    for work in works:
        key, said = ObjectKey.of(work), (find_condition(work, type_) for type_ in WORK_CONDITIONS)
        wrong = next((each for each in said if each is not None and each.status == "False"), None)
        if wrong is not None:
            show = f"kubectl -n {key.namespace} describe manifestwork {key.name}"
            findings.append(warn("WorkNotApplied", f"work {key.name}: {wrong.message or wrong.reason}", show))
    return findings or passed(f"{format_count(len(works), 'work')}, all applied")
