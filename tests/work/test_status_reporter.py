"""The status of a work is reported on the hub, promptly and not too often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.helpers.leak_search import Canary
from tests.work.work_environment import WorkEnvironment

from watchword.api.conditions import is_true
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, DEPLOYMENTS, JOBS, MANIFEST_WORKS, SECRETS
from watchword.testing.eventually import eventually

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1000m"}}}]},
}


def a_deployment(site: WorkEnvironment) -> Object:
    spec = {"selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE}
    return DEPLOYMENTS.manifest(ObjectKey(site.namespace, "d"), spec=spec)


def a_job(site: WorkEnvironment) -> Object:
    spec = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
    return JOBS.manifest(ObjectKey(site.namespace, "j"), spec=spec)


def asking(site: WorkEnvironment, group: str, resource: str, name: str, **rules: Any) -> list[Object]:
    identifier = {"group": group, "resource": resource, "namespace": site.namespace, "name": name}
    return [{"resourceIdentifier": identifier, **rules}]


def values_in(work: Object | None) -> dict[str, Any]:
    rows = (((work or {}).get("status") or {}).get("resourceStatus") or {}).get("manifests") or [{}]
    values = (rows[0].get("statusFeedback") or {}).get("values") or []
    return {row["name"]: next(v for k, v in row["fieldValue"].items() if k != "type") for row in values}


def reason_in(work: Object, type_: str, said: str = "reason") -> str:
    rows = work["status"]["resourceStatus"]["manifests"][0]["conditions"]
    return next(str(row[said]) for row in rows if row["type"] == type_)


async def told(site: WorkEnvironment, work: str, expected: dict[str, Any], *, within: float = 60) -> Object:
    key = ObjectKey(site.cluster, work)
    return await eventually(
        site.client, MANIFEST_WORKS, key, lambda obj: expected.items() <= values_in(obj).items(), within=within
    )


async def test_progress_of_a_deployment_is_reported_as_it_happens(running: WorkEnvironment) -> None:
    rules = asking(running, "apps", "deployments", "d", feedbackRules=[{"type": "WellKnownStatus"}])
    await running.has("w", a_deployment(running), manifestConfigs=rules)
    await running.applied("w")

    status = {"status": {"replicas": 1, "readyReplicas": 1, "availableReplicas": 1}}
    await running.client.patch(DEPLOYMENTS, ObjectKey(running.namespace, "d"), status, subresource="status")

    await told(running, "w", {"Replicas": 1, "ReadyReplicas": 1, "AvailableReplicas": 1}, within=5)


async def test_a_deployment_that_the_server_writes_its_own_way_is_not_written_again_and_again(
    running: WorkEnvironment,
) -> None:
    await running.has("w", a_deployment(running))
    await running.applied("w")
    for number in range(3):
        status = {"status": {"observedGeneration": number + 1}}
        await running.client.patch(DEPLOYMENTS, ObjectKey(running.namespace, "d"), status, subresource="status")
    await running.has("later", running.config_map("x"))
    await running.applied("later")

    assert [line for line in running.writes() if line == "PATCH d"] == ["PATCH d"]


async def test_values_are_read_by_path_and_errors_are_reported(running: WorkEnvironment) -> None:
    paths = [{"name": "a", "path": ".data.a"}, {"name": "bad", "path": ".data["}, {"name": "no", "path": ".data.no"}]
    rules = asking(running, "", "configmaps", "one", feedbackRules=[{"type": "JSONPaths", "jsonPaths": paths}])
    await running.has("w", running.config_map("one", {"a": "7"}), manifestConfigs=rules)

    work = await told(running, "w", {"a": "7"})

    assert values_in(work) == {"a": "7"}
    assert reason_in(work, "StatusFeedbackSynced") == "StatusFeedbackSyncFailed"


async def test_content_of_a_secret_is_never_printed(running: WorkEnvironment, canary: Canary) -> None:
    value = canary.plant("password")
    body = SECRETS.manifest(ObjectKey(running.namespace, "s"), stringData={"password": value})
    paths = [{"name": "data", "path": ".data.password"}, {"name": "all", "path": ".data"}]
    rules = asking(running, "", "secrets", "s", feedbackRules=[{"type": "JSONPaths", "jsonPaths": paths}])
    await running.has("w", body, manifestConfigs=rules)

    work = await running.applied("w")

    assert values_in(work) == {}
    canary.assert_not_leaked("the status", str(work["status"]))


async def test_a_finished_job_completes_its_work_and_nothing_is_applied_any_more(running: WorkEnvironment) -> None:
    rules = asking(
        running, "batch", "jobs", "j", conditionRules=[{"condition": "Complete", "type": "WellKnownConditions"}]
    )
    await running.has("w", a_job(running), manifestConfigs=rules)
    await running.says("w", "Complete", "False")

    await finish(running)
    await running.says("w", "Complete", "True")
    await running.changes("w", running.config_map("late"), manifestConfigs=[])
    await running.has("later", running.config_map("x"))
    await running.applied("later")

    assert await running.find("late") is None


async def finish(site: WorkEnvironment) -> None:
    """Let the job be done, as its controller would say it in two steps."""
    key = ObjectKey(site.namespace, "j")
    base = {"startTime": "2026-01-01T00:00:00Z", "uncountedTerminatedPods": {}}
    stamp = {"status": "True", "lastTransitionTime": "2026-01-01T00:01:00Z", "reason": "r", "message": "m"}
    reached = [{"type": "SuccessCriteriaMet", **stamp}]
    await site.client.patch(JOBS, key, {"status": {**base, "conditions": reached}}, subresource="status")
    done = [*reached, {"type": "Complete", **stamp}]
    status = {**base, "succeeded": 1, "completionTime": "2026-01-01T00:01:00Z", "conditions": done}
    await site.client.patch(JOBS, key, {"status": status}, subresource="status")


async def test_a_condition_is_computed_by_expressions(running: WorkEnvironment) -> None:
    rule = {
        "condition": "Done",
        "type": "CEL",
        "celExpressions": ["hasConditions(object.status) && object.status.conditions.exists(c, c.type == 'Complete')"],
        "messageExpression": "object.metadata.name + (result ? ' is done' : ' goes on')",
    }
    rules = asking(running, "batch", "jobs", "j", conditionRules=[rule])
    await running.has("w", a_job(running), manifestConfigs=rules)
    before = await running.says("w", "Done", "False")

    await finish(running)
    after = await running.says("w", "Done", "True")

    assert [reason_in(work, "Done", "message") for work in (before, after)] == ["j goes on", "j is done"]


async def test_rule_that_cannot_be_evaluated_is_reported(running: WorkEnvironment) -> None:
    rule = {"condition": "Done", "type": "CEL", "celExpressions": ["object.status.nothing == 1"]}
    rules = asking(running, "batch", "jobs", "j", conditionRules=[rule])
    await running.has("w", a_job(running), manifestConfigs=rules)

    work = await running.says("w", "Done", "False")

    assert reason_in(work, "Done") == "ConditionRuleExpressionError"


@pytest.mark.planes("embedded")  # ten minutes have to pass
async def test_values_that_change_often_are_reported_seldom(running: WorkEnvironment) -> None:
    paths = [{"name": "a", "path": ".data.a"}]
    rules = asking(running, "", "configmaps", "one", feedbackRules=[{"type": "JSONPaths", "jsonPaths": paths}])
    rules[0]["updateStrategy"] = {"type": "CreateOnly"}
    await running.has("w", running.config_map("one"), manifestConfigs=rules)
    await running.applied("w")
    running.log.clear()

    for number in range(600):
        await running.client.patch(CONFIG_MAPS, ObjectKey(running.namespace, "one"), {"data": {"a": str(number)}})
        await asyncio.sleep(1)
    work = await told(running, "w", {"a": "599"})

    assert is_true(work, "Applied")
    assert len(running.writes()) <= 30
