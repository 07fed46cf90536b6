"""Lets clusters in when the hub's administrator says so and nothing contradicts it."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta

from watchword.api.conditions import find_condition
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import ConditionType
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.discovery.waiting import NotYet, Patience, Progress, in_silence, look_until
from watchword.drivers.csr.claims import Claim
from watchword.drivers.csr.hub import registers_by_certificate
from watchword.fleet.errors import Refused, TooLate
from watchword.fleet.hub_desk import IS_IT_RUNNING, Decision, HubDesk
from watchword.fleet.watching import Watcher
from watchword.hub.first_request import Approve, NotAsked, Refuse, Terms, judge_admission
from watchword.hub.token_policy import note_use, token_of
from watchword.kube.errors import Conflict

ATTEMPTS = 5  # the hub's controllers write to a new cluster at the same time


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """Accepts clusters under the terms that the administrator named; nothing is written unless everything may be."""

    desk: HubDesk
    terms: Terms
    progress: Progress = field(default=in_silence)

    async def accept(self, name: str) -> Decision:
        """Approve what the cluster asked for and accept it; `Refused` when that must not be, `TooLate` when early."""
        for attempt in range(ATTEMPTS):
            cluster = await self.desk.cluster(name)
            try:
                # Who registers otherwise is let in by the hub's own driver, as soon as it is accepted.
                approved = await self.approve(cluster) if registers_by_certificate(cluster) else Decision(name)
                changed = await self.desk.set_accepted(cluster, accepted=True, claim=approved.claim)
                return Decision(name, approved.requests, approved.key, changed)
            except Conflict:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("returned or raised above")

    async def accept_in_time(self, name: str, patience: timedelta) -> Decision:
        """Wait until the cluster has asked, accept it, and wait until the hub has given it its rights."""

        async def look() -> Decision:
            try:
                return await self.accept(name)
            except TooLate as early:
                raise NotYet(str(early).partition(":")[0], early) from early

        decision = await look_until(look, Patience(patience, pause=timedelta(seconds=2)), self.progress)
        watcher = Watcher(self.desk.client, patience, self.progress)
        await watcher.until(MANAGED_CLUSTERS, ObjectKey.cluster(name), judge_granted, advice=IS_IT_RUNNING)
        return decision

    async def approve(self, cluster: Object) -> Decision:
        """Approve the cluster's pending request; raises as `accept` does."""
        name = cluster["metadata"]["name"]
        admission = judge_admission(cluster, await self.desk.requests_of(name), self.terms)
        if isinstance(admission, Refuse):
            raise Refused(admission.why)
        if isinstance(admission, NotAsked) and not self.terms.anyone:
            raise TooLate(
                f"cluster {name} has not asked for a certificate yet: run the command again in a moment, or with --wait"
            )
        if not isinstance(admission, Approve):
            return Decision(name)
        await self._note_token(admission.request.requester, name)
        for csr in admission.requests:
            await self.desk.decide(csr, "Approved", "the hub's administrator accepted this cluster")
        names = tuple(csr["metadata"]["name"] for csr in admission.requests)
        claim = Claim.of(admission.request, self.desk.clock.now())
        return Decision(name, names, admission.request.key_thumbprint, claim=claim)

    async def _note_token(self, requester: str, cluster: str) -> None:
        """Hold a bootstrap token to what it was made for, also when it is gone."""
        key = token_of(requester)
        if key is None or self.terms.anyone:
            return
        secret = await self.desk.client.find(SECRETS, key)
        if secret is None and requester in self.terms.requesters:
            return
        objection = await note_use(self.desk.client, secret, requester, cluster, dry_run=self.desk.dry_run)
        if objection:
            raise Refused(
                f"cluster {cluster} may not come in by the token of {requester}: {objection}; "
                + (f"if you know who asked, run again with --requesters {requester}" if secret is None else "")
            )


def judge_granted(found: Object | None) -> str:
    """Say what an accepted cluster still lacks; empty when it has its rights."""
    said = find_condition(found or {}, ConditionType.HUB_ACCEPTED)
    if said is not None and said.status == "True":
        return ""
    return f"the hub has not given the cluster its rights yet{f' ({said.message})' if said else ''}"
