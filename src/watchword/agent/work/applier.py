"""Brings single objects of a work to the managed cluster, by the strategy that the work asks for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from watchword.agent.work.api_errors import describe_api_error, is_field_conflict
from watchword.agent.work.errors import InvalidFieldPath, NotPermitted
from watchword.agent.work.executor import READ_VERBS
from watchword.agent.work.manifest_config import Strategy
from watchword.agent.work.manifests import ObjectRef
from watchword.agent.work.object_writer import ApplyStep, ObjectWriter
from watchword.agent.work.outcomes import AppliedReason, ApplyOutcome, RetryMode
from watchword.agent.work.server_side_apply import ServerSideApplier
from watchword.agent.work.updater import Updater
from watchword.api.meta import Object
from watchword.kube.errors import ApiStatusError, Conflict
from watchword.runtime.errors import BeingDeleted


@dataclass(frozen=True)
class Applier:
    """Turns whatever concerns one object alone into an outcome, so that the others go on."""

    writer: ObjectWriter
    updater: Updater
    server_side_applier: ServerSideApplier

    @classmethod
    def of(cls, writer: ObjectWriter) -> Applier:
        """Return an applier that has applied nothing yet."""
        return cls(writer, Updater(writer), ServerSideApplier(writer))

    async def apply(self, step: ApplyStep) -> ApplyOutcome:
        """Bring one object over; raises only when the server cannot be reached."""
        try:
            await self.writer.permissions.require(step.executor, READ_VERBS, step.target)
        except NotPermitted as refusal:
            return replace(ApplyOutcome.failed(str(refusal), RetryMode.AFTER_MINUTE), is_readable=False)
        try:
            return ApplyOutcome(await self._strategy(step)(step))
        except NotPermitted as refusal:
            return ApplyOutcome.failed(str(refusal), RetryMode.AFTER_MINUTE)
        except InvalidFieldPath as refusal:
            return ApplyOutcome.failed(str(refusal), RetryMode.ON_CHANGE, AppliedReason.IGNORE_FIELD_ERROR)
        except BeingDeleted as refusal:
            return ApplyOutcome.failed(str(refusal), RetryMode.WITH_BACKOFF)
        except ApiStatusError as refusal:
            final = isinstance(refusal, Conflict) and is_field_conflict(refusal)
            retry = RetryMode.ON_CHANGE if final else RetryMode.WITH_BACKOFF
            return ApplyOutcome.failed(describe_api_error(refusal, step.target), retry, error=refusal)

    def forget(self, target: ObjectRef) -> None:
        """Remember nothing about an object."""
        self.updater.forget(target)
        self.server_side_applier.forget(target)

    def _strategy(self, step: ApplyStep) -> Callable[[ApplyStep], Awaitable[Object | None]]:
        return {
            Strategy.UPDATE: self.updater.update,
            Strategy.CREATE_ONLY: self._create_only,
            Strategy.SERVER_SIDE_APPLY: self.server_side_applier.server_side_apply,
            Strategy.READ_ONLY: self._read_only,
        }[step.config.strategy]

    async def _read_only(self, step: ApplyStep) -> Object | None:
        return await self.writer.objects.read(step.target)

    async def _create_only(self, step: ApplyStep) -> Object:
        return await self.writer.set_owner(step, await self.writer.create_or_read(step))
