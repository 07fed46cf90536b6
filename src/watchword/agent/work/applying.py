"""Brings single objects of a work to the managed cluster, by the strategy that the work asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from watchword.agent.work.declaring import Declarer
from watchword.agent.work.errors import NotPermitted, UnreadablePath
from watchword.agent.work.executor import READING
from watchword.agent.work.manifests import Target
from watchword.agent.work.outcomes import Again, Outcome, Reason
from watchword.agent.work.refusals import describe, is_field_conflict
from watchword.agent.work.treatment import Strategy
from watchword.agent.work.updating import Updater
from watchword.agent.work.writing import Order, Writer
from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.runtime.errors import BeingDeleted


@dataclass(frozen=True)
class Applier:
    """Turns whatever concerns one object alone into an outcome, so that the others go on."""

    writer: Writer
    updater: Updater
    declarer: Declarer

    @classmethod
    def of(cls, writer: Writer) -> Applier:
        """Return an applier that has applied nothing yet."""
        return cls(writer, Updater(writer), Declarer(writer))

    async def apply(self, order: Order) -> Outcome:
        """Bring one object over; raises only when the server cannot be reached."""
        try:
            await self.writer.permits.require(order.executor, READING, order.target)
            return Outcome(await self._strategy(order)(order))
        except NotPermitted as refusal:
            return Outcome.failed(str(refusal), Again.IN_A_MINUTE)
        except UnreadablePath as refusal:
            return Outcome.failed(str(refusal), Again.WHEN_CHANGED, Reason.IGNORE_FIELD_ERROR)
        except BeingDeleted as refusal:
            return Outcome.failed(str(refusal), Again.WITH_BACKOFF)
        except ApiStatusError as refusal:
            final = isinstance(refusal, Conflict) and is_field_conflict(refusal)
            again = Again.WHEN_CHANGED if final else Again.WITH_BACKOFF
            return Outcome.failed(describe(refusal, order.target), again, error=refusal)

    def forget(self, target: Target) -> None:
        """Remember nothing about an object."""
        self.updater.forget(target)
        self.declarer.forget(target)

    def _strategy(self, order: Order) -> Callable[[Order], Awaitable[Object | None]]:
        return {
            Strategy.UPDATE: self.updater.update,
            Strategy.CREATE_ONLY: self._create_only,
            Strategy.SERVER_SIDE_APPLY: self.declarer.declare,
            Strategy.READ_ONLY: self._read_only,
        }[order.treatment.strategy]

    async def _read_only(self, order: Order) -> Object | None:
        return await self.writer.objects.read(order.target)

    async def _create_only(self, order: Order) -> Object:
        return await self.writer.own(order, await self.writer.create_or_read(order))
