"""What happens to the token of an account is told as Events, and nothing is told twice."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random

import orjson
import pytest

from watchword.accounts.hub.controllers import AccountEvents
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import EVENTS, MANAGED_SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.metrics import Metrics
from watchword.runtime.raw_objects import Delta
from watchword.testing.plane import Plane
from watchword.testing.virtual_time import EPOCH

HOUR = timedelta(hours=1)
ROBOT = ObjectKey("edge-1", "robot")


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
        "watchword.dev/test",
        "one",
        clock=plane.clock,
        random=Random(1),
        counts=Metrics(),
    )
    key, before = ObjectKey(namespace, "robot"), None

    for state in states:
        metadata = {"name": "robot", "namespace": namespace}
        now = state and orjson.dumps({**state, "metadata": {**state["metadata"], **metadata}})
        AccountEvents(recorder).observe(Delta(MANAGED_SERVICE_ACCOUNTS, key, before, now or None))
        before = now or None
    await recorder.flush(timedelta(seconds=10))

    events = (await plane.client().list(EVENTS, namespace=namespace)).items
    assert [event["reason"] for event in events] == told
