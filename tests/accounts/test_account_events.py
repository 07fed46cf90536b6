"""What happens to the token of an account is told as Events, and nothing is told twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from random import Random

import pytest

from watchword.accounts.hub.controllers import AccountEventReconciler
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import EVENTS, MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.runtime.event_recorder import EventRecorder, EventReporter
from watchword.runtime.metrics import Metrics
from watchword.runtime.reconcile import Reader
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import EPOCH

HOUR = timedelta(hours=1)
ROBOT = ObjectKey("edge-1", "robot")


@dataclass
class OneAccount(Reader):
    """A cache with one account, or none."""

    found: Object | None = None

    def get(self, _resource: object, _key: ObjectKey) -> Object | None:
        return self.found

    def list(self, _resource: object, *, namespace: str = "", labels: str = "") -> Sequence[Object]:
        return [self.found] if self.found is not None else []

    def by_index(self, resource: object, _index: str, _value: str) -> Sequence[Object]:
        return self.list(resource)


def an_account(*, expires: datetime | None = None, uid: str = "u1", revoked: bool = False) -> Object:
    status: Object = {}
    if expires is not None:
        status = {"expirationTimestamp": rfc3339(expires), "tokenSecretRef": {"name": "robot"}}
    if revoked:
        status["conditions"] = [{"type": "AllServiceAccountPresent", "status": "False", "reason": "Revoked"}]
    return MANAGED_SERVICE_ACCOUNTS.manifest(ROBOT, metadata={"uid": uid}, status=status)


@pytest.mark.planes("embedded")
@pytest.mark.parametrize(
    ("states", "told"),
    [
        pytest.param([an_account(expires=EPOCH)], [], id="what is seen first is no news"),
        pytest.param([an_account(), an_account(expires=EPOCH)], ["AccountTokenIssued"], id="the first token"),
        pytest.param([an_account(expires=EPOCH), an_account(expires=EPOCH)], [], id="nothing changed"),
        pytest.param(
            [an_account(expires=EPOCH), an_account(expires=EPOCH + HOUR)], ["AccountTokenRenewed"], id="a renewal"
        ),
        pytest.param([an_account(expires=EPOCH, revoked=True), None], ["AccountRevoked"], id="revoked"),
        pytest.param([an_account(expires=EPOCH), None], ["AccountAbandoned"], id="gone, and its cluster said nothing"),
        pytest.param(
            [an_account(revoked=True), an_account(expires=EPOCH, uid="u2")], ["AccountRevoked"], id="made anew"
        ),
    ],
)
async def test_tokens_of_accounts_are_told(plane: Plane, states: list[Object | None], told: list[str]) -> None:
    namespace = await plane.namespace("accounts")
    recorder = EventRecorder(
        plane.client(),
        EventReporter("watchword.dev/test", "one"),
        clock=plane.clock,
        random=Random(1),
        counts=Metrics(),
    )
    cache = OneAccount()
    reconciler = AccountEventReconciler(cache, recorder, MANAGED_SERVICE_ACCOUNTS)
    key = ObjectKey(namespace, "robot")

    for state in states:
        metadata = {"name": "robot", "namespace": namespace}
        cache.found = state and {**state, "metadata": {**state["metadata"], **metadata}}
        await reconciler.reconcile(key)
    await recorder.flush(timedelta(seconds=10))

    events = (await plane.client().list(EVENTS, namespace=namespace)).items
    assert [event["reason"] for event in events] == told
