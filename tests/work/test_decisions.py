"""Decisions about works: ownership, deletion of records, what is watched, what a refusal means."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey, ObjectRef
from watchword.api.names import Annotation
from watchword.api.resources import CONFIG_MAPS, JOBS, NAMESPACES, SECRETS
from watchword.kube.errors import error_from_status
from watchword.runtime.api_errors import describe_api_error
from watchword.work.applied_work import decide_eviction
from watchword.work.applied_work_store import AppliedResource
from watchword.work.executor import NotPermitted, executor_of
from watchword.work.feedback import decide_rule_conditions, field_value, read_feedback
from watchword.work.ignore_fields import InvalidFieldPath, choose_apply_body
from watchword.work.object_watches import choose_watches
from watchword.work.objects import RemovalAction, decide_removal
from watchword.work.status import FeedbackThrottle

NOW = datetime(2026, 11, 15, tzinfo=UTC)
HOUR = timedelta(hours=1)
ONE = ObjectRef(CONFIG_MAPS, ObjectKey("ns", "one"))


def owned(*owners: str, uid: str = "u", deleting: bool = False) -> Object:
    metadata: Object = {"uid": uid, "ownerReferences": [{"uid": owner} for owner in owners]}
    return {"metadata": {**metadata, **({"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {})}}


@pytest.mark.parametrize(
    ("present", "keep", "expected"),
    [
        pytest.param(None, False, RemovalAction.NOTHING, id="gone"),
        pytest.param(owned("ours", uid="other"), False, RemovalAction.NOTHING, id="a namesake"),
        pytest.param(owned(), False, RemovalAction.NOTHING, id="without owner"),
        pytest.param(owned("theirs"), False, RemovalAction.NOTHING, id="of another owner"),
        pytest.param(owned("ours", "theirs"), False, RemovalAction.DISOWN, id="shared"),
        pytest.param(owned("ours"), True, RemovalAction.DISOWN, id="orphaned"),
        pytest.param(owned("ours", deleting=True), False, RemovalAction.WAIT, id="on its way out"),
        pytest.param(owned("ours"), False, RemovalAction.DELETE, id="ours alone"),
    ],
)
def test_decide_release(present: Object | None, expected: RemovalAction, *, keep: bool) -> None:
    assert decide_removal(AppliedResource.of(ONE, "u"), present, owner_uid="ours", keep=keep) is expected


@pytest.mark.parametrize(
    ("before", "grace", "since", "due_in"),
    [
        pytest.param(None, timedelta(days=36500), None, None, id="eviction is off"),
        pytest.param(None, HOUR, NOW, HOUR, id="missed for the first time"),
        pytest.param(NOW + HOUR, HOUR, NOW, HOUR, id="missed in the future: the clock was set back"),
        pytest.param(NOW - HOUR / 2, HOUR, NOW - HOUR / 2, HOUR / 2, id="half of the time has passed"),
        pytest.param(NOW - HOUR, HOUR, NOW - HOUR, timedelta(0), id="due to the second"),
    ],
)
def test_decide_eviction(
    before: datetime | None, grace: timedelta, since: datetime | None, due_in: timedelta | None
) -> None:
    assert decide_eviction(before, now=NOW, grace=grace) == (since, due_in)


def targets(count: int, namespace: str = "ns") -> list[ObjectRef]:
    return [ObjectRef(CONFIG_MAPS, ObjectKey(namespace, f"m{n}")) for n in range(count)]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param(targets(2), ["ns metadata.name=m0", "ns metadata.name=m1"], id="few are followed by name"),
        pytest.param(targets(9), ["ns "], id="many through their collection"),
        pytest.param([*targets(9), *targets(9, "b")], ["b ", "ns "], id="one collection for each namespace"),
        pytest.param([ObjectRef(NAMESPACES, ObjectKey.cluster("x"))], [" metadata.name=x"], id="cluster-scoped"),
    ],
)
def test_choose_watches(wanted: list[ObjectRef], expected: list[str]) -> None:
    chosen = choose_watches(wanted)

    assert sorted(f"{scope.namespace} {scope.fields}" for _, scope in chosen) == expected


def test_watches_are_chosen_in_the_same_order_in_every_process() -> None:
    wanted = frozenset(target for n in range(8) for target in targets(3, f"ns{n}"))

    order = [(scope.namespace, scope.fields) for _, scope in choose_watches(wanted)]

    assert order == [(f"ns{n}", f"metadata.name=m{m}") for n in range(8) for m in range(3)]


def test_no_more_is_followed_than_allowed() -> None:
    wanted = [target for n in range(50) for target in targets(1, f"ns{n}")]

    assert len(choose_watches(wanted, most=10)) == 10


@pytest.mark.parametrize(
    ("executor", "expected"),
    [
        pytest.param({"subject": {"type": "User", "name": "root"}}, None, id="a user"),
        pytest.param({"subject": {"type": "ServiceAccount"}}, None, id="no executor named"),
    ],
)
def test_an_executor_that_is_not_an_account_is_refused(executor: Object, expected: None) -> None:
    with pytest.raises(NotPermitted):
        executor_of({"spec": {"executor": executor}})


def test_without_an_executor_the_agent_acts_itself() -> None:
    assert executor_of({"spec": {}}) is None


def refusal(code: int, reason: str, message: str, *causes: Object) -> Any:
    return error_from_status(code, {"reason": reason, "message": message, "details": {"causes": list(causes)}})


@pytest.mark.parametrize(
    ("error", "target", "expected"),
    [
        pytest.param(
            refusal(422, "Invalid", "spec: hunter2", {"field": "spec.template", "message": "hunter2 is bad"}),
            ONE,
            "spec.template",
            id="values of invalid fields",
        ),
        pytest.param(refusal(400, "BadRequest", "cannot read hunter2"), ONE, "BadRequest", id="unreadable"),
        pytest.param(
            refusal(403, "Forbidden", "webhook: hunter2"), ObjectRef(SECRETS, ONE.key), "Forbidden", id="about a Secret"
        ),
        pytest.param(
            refusal(409, "Conflict", "x", {"field": ".data.a", "reason": "FieldManagerConflict"}),
            ONE,
            "fields that others manage (.data.a)",
            id="conflict",
        ),
        pytest.param(refusal(404, "NotFound", 'namespaces "x" not found'), ONE, 'namespaces "x"', id="harmless"),
    ],
)
def test_refusals_are_reported_without_values(error: Any, target: ObjectRef, expected: str) -> None:
    said = describe_api_error(error, target)

    assert expected in said
    assert "hunter2" not in said


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param({"a": 1}, None, id="an object"),
        pytest.param([1], None, id="a list"),
        pytest.param(1.5, None, id="a fraction"),
        pytest.param(2**63, None, id="too big"),
        pytest.param("x" * 2000, None, id="too long"),
        pytest.param(True, {"type": "Boolean", "boolean": True}, id="boolean"),
        pytest.param(0, {"type": "Integer", "integer": 0}, id="integer"),
        pytest.param("x", {"type": "String", "string": "x"}, id="string"),
    ],
)
def test_field_value(value: Any, expected: Object | None) -> None:
    assert field_value(value) == expected


def test_well_known_status_of_an_unknown_kind_is_an_error() -> None:
    said = read_feedback({"metadata": {}}, [{"type": "WellKnownStatus"}], ONE)

    assert said.values == ()
    assert "no well-known values of configmaps" in said.problems[0]


@pytest.mark.parametrize(
    ("rule", "status"),
    [
        pytest.param({"condition": "Applied", "type": "WellKnownConditions"}, [], id="not ours to overwrite"),
        pytest.param({"condition": "a b", "type": "WellKnownConditions"}, [], id="no condition's name"),
        pytest.param({"condition": "Complete", "type": "Rego"}, ["Unknown"], id="not supported"),
        pytest.param({"condition": "Ready", "type": "WellKnownConditions"}, ["Unknown"], id="not known"),
        pytest.param({"condition": "Complete", "type": "WellKnownConditions"}, ["True"], id="failed is finished, too"),
    ],
)
def test_decide_rules(rule: Object, status: list[str]) -> None:
    job = {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}
    target = ObjectRef(JOBS, ObjectKey("ns", "j"))

    assert [condition.status for condition in decide_rule_conditions(job, [rule], target)] == status


WANTED: Object = {"metadata": {"name": "x"}, "spec": {"replicas": 1, "list": [{"a": 1}, {"a": 2}]}}


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"jsonPaths": [".spec["]}, id="broken path"),
        pytest.param({"jsonPointers": ["spec/replicas"]}, id="broken pointer"),
        pytest.param({"jqPathExpressions": [".spec | keys"]}, id="jq program"),
        pytest.param({"jsonPaths": [".metadata.name"]}, id="the name"),
        pytest.param({"jsonPaths": ["."]}, id="everything"),
    ],
)
def test_ignored_fields_that_cannot_be_followed(rule: Object) -> None:
    with pytest.raises(InvalidFieldPath):
        choose_apply_body(WANTED, None, [{"condition": "OnSpokePresent", **rule}], digest="d")


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param({"jsonPaths": ["{.spec.replicas}"]}, id="path in braces"),
        pytest.param({"jsonPaths": ["$.spec.replicas"]}, id="path with a dollar"),
        pytest.param({"jsonPointers": ["/spec/replicas"]}, id="pointer"),
        pytest.param({"jqPathExpressions": [".spec.replicas"]}, id="jq path"),
    ],
)
def test_ignored_fields_keep_the_values_of_the_cluster(rule: Object) -> None:
    present = {"metadata": {"annotations": {Annotation.APPLIED_DIGEST: "d"}}, "spec": {"replicas": 5}}

    applied, depends = choose_apply_body(WANTED, present, [{"condition": "OnSpokePresent", **rule}], digest="d")

    assert depends
    assert applied["spec"]["replicas"] == 5
    assert WANTED["spec"]["replicas"] == 1


def test_ignored_items_that_the_cluster_lacks_are_left_out() -> None:
    present: Object = {"metadata": {}, "spec": {}}

    applied, _ = choose_apply_body(WANTED, present, [{"jsonPaths": [".spec.list[*].a"]}], digest="d")

    assert applied["spec"] == {"replicas": 1, "list": [{}, {}]}


def test_objects_that_cannot_be_watched_are_read_once_a_second_at_most() -> None:
    assert FeedbackThrottle(timedelta(0)).interval == timedelta(seconds=1)


async def test_reports_that_follow_each_other_wait_longer_and_longer() -> None:
    throttle, key, waits = FeedbackThrottle(timedelta(seconds=30)), ObjectKey("ns", "w"), []
    for _ in range(7):
        waits.append(throttle.delay(key).total_seconds())
        await asyncio.sleep(waits[-1])
        throttle.record_write(key)

    assert waits == [0, 1, 2, 4, 8, 16, 30]
    await asyncio.sleep(61)
    assert throttle.delay(key) == timedelta(0)
