"""The real kubectl sees workloads of the process node as it would on a cluster."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from tests.apiserver.node.conftest import TaskRunner, a_template

from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.instance import Instance, InstanceSettings
from watchword.apiserver.node.model import NodeSettings
from watchword.apiserver.node.node import ProcessNode
from watchword.local.workloads import WORKLOADS
from watchword.pki.jwt import TokenSigner

KUBECTL = shutil.which("kubectl")
pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed"),
]
Kubectl = Callable[..., Awaitable[str]]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "a"}}, "template": a_template()},
}
CRON_JOB = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "clean", "namespace": "default"},
    "spec": {
        "schedule": "0 0 1 1 *",
        "jobTemplate": {"spec": {"template": a_template("clean-clusters", restartPolicy="Never")}},
    },
}


@pytest.fixture
def runner() -> TaskRunner:
    return TaskRunner()


@pytest.fixture
async def kubectl(tmp_path: Path, runner: TaskRunner) -> AsyncIterator[Kubectl]:
    instance = Instance(InstanceSettings(tmp_path / "data", port=0, synchronous="NORMAL"), lambda: datetime.now(UTC))
    await instance.start()
    rules = instance._rules()
    issuer = TokenIssuer(rules.issuer, TokenSigner(rules.token_keys.signing))
    settings = NodeSettings(tmp_path / "pods", "127.0.0.1", instance.port, WORKLOADS)
    node = ProcessNode(instance.plane.registry, issuer, rules.audiences, lambda: datetime.now(UTC), settings, runner)
    await node.start()

    async def call(*arguments: str, stdin: object = None) -> str:
        process = await asyncio.create_subprocess_exec(
            str(KUBECTL),
            f"--kubeconfig={instance.kubeconfig}",
            f"--cache-dir={tmp_path / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate(orjson.dumps(stdin) if stdin is not None else None)
        assert process.returncode == 0, output.decode()
        return output.decode()

    yield call
    await node.stop()
    await instance.stop()


@pytest.mark.slow
async def test_rollouts_look_as_on_a_cluster(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", stdin=DEPLOYMENT)

    assert "successfully rolled out" in await kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    assert (await kubectl("get", "deploy", "web", "--no-headers")).split()[:4] == ["web", "2/2", "2", "2"]
    pods = (await kubectl("get", "pods", "--no-headers")).splitlines()
    assert [line.split()[1:4] for line in pods] == [["1/1", "Running", "0"]] * 2

    await kubectl("rollout", "restart", "deploy/web")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    assert "2" in (await kubectl("rollout", "history", "deploy/web"))
    await kubectl("rollout", "undo", "deploy/web")
    assert "successfully rolled out" in await kubectl("rollout", "status", "deploy/web", "--timeout=20s")
    await kubectl("scale", "deploy/web", "--replicas=1")
    await kubectl("wait", "deploy/web", "--for=jsonpath={.status.replicas}=1", "--timeout=20s")


async def test_a_job_can_be_made_from_a_cron_job(kubectl: Kubectl, runner: TaskRunner) -> None:
    runner.script = [0]
    await kubectl("apply", "-f", "-", stdin=CRON_JOB)

    await kubectl("create", "job", "now", "--from=cronjob/clean")

    await kubectl("wait", "job/now", "--for=condition=Complete", "--timeout=20s")
    assert (await kubectl("get", "job", "now", "--no-headers")).split()[:3] == ["now", "Complete", "1/1"]


async def test_what_is_not_served_is_explained_by_describe(kubectl: Kubectl) -> None:
    template = a_template(container={"image": "nginx"})
    await kubectl("apply", "-f", "-", stdin={**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "template": template}})  # type: ignore[dict-item]
    await kubectl("wait", "pods", "-l=app=a", "--for=condition=PodScheduled=false", "--timeout=20s")

    described = await kubectl("describe", "pods", "-l=app=a")

    assert "ImageNotServed" in described
    assert "image 'nginx' is not served" in described
