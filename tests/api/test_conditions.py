"""What counts as a change of an object for readers that do not read the messages of its conditions."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.conditions import without_messages
from watchword.api.meta import Object


def a_cluster(*, version: str = "1", accepted: bool = True, node: str = "1", **changed: Any) -> Object:
    row = {"type": "Joined", "status": "True", "reason": "R", "message": "m", "lastTransitionTime": "t", **changed}
    return {
        "metadata": {"name": "edge", "resourceVersion": version, "generation": 1, "managedFields": []},
        "spec": {"hubAcceptsClient": accepted},
        "status": {"capacity": {"nodes": node}, "conditions": [row]},
    }


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_cluster(status="False"), id="status of a condition"),
        pytest.param(a_cluster(reason="Other"), id="reason of a condition"),
        pytest.param(a_cluster(type="Available"), id="type of a condition"),
        pytest.param(a_cluster(accepted=False), id="spec"),
        pytest.param(a_cluster(node="2"), id="status"),
        pytest.param({**a_cluster(), "status": {}}, id="conditions that are gone"),
        pytest.param({**a_cluster(), "metadata": {"name": "edge", "labels": {"a": "b"}}}, id="metadata"),
        pytest.param({**a_cluster(), "metadata": {"name": "edge", "deletionTimestamp": "t"}}, id="deletion"),
    ],
)
def test_change_that_is_read(changed: Object) -> None:
    assert without_messages(changed) != without_messages(a_cluster())


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(a_cluster(message="other"), id="message"),
        pytest.param(a_cluster(lastTransitionTime="later"), id="instant"),
        pytest.param(a_cluster(version="2"), id="version"),
    ],
)
def test_change_that_is_not_read(changed: Object) -> None:
    assert without_messages(changed) == without_messages(a_cluster())
