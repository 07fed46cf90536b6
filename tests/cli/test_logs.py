"""`kubectl logs` and `watchword logs` show what the pods of the embedded control plane log."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.helpers.node_cluster import a_cluster_with_node

from watchword.admin.workloads import LogRequest, read_log
from watchword.api.meta import ObjectKey
from watchword.api.resources import PODS
from watchword.cli.main import run
from watchword.kube.connect import connect
from watchword.testing.eventually import eventually_all

pytestmark = [pytest.mark.real_time, pytest.mark.timeout(180)]
KUBECTL = shutil.which("kubectl")


async def watchword(kubeconfig: Path, *argv: str) -> int:
    return await asyncio.to_thread(run, [*argv, "--kubeconfig", str(kubeconfig)])


async def the_operator(kubeconfig: Path) -> ObjectKey:
    client = connect(kubeconfig)
    try:
        found = await eventually_all(client, PODS, lambda pods: any("watchword-operator" in key.name for key in pods))
    finally:
        await client.close()
    return next(key for key in found if "watchword-operator" in key.name)


async def test_the_log_of_the_operator_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as kubeconfig:
        assert await watchword(kubeconfig, "init", "--wait", "--no-probe") == 0
        capsys.readouterr()
        assert await watchword(kubeconfig, "logs", "operator") == 0
        whole = capsys.readouterr().out
        assert await watchword(kubeconfig, "logs", "operator", "--tail", "1") == 0
        assert len(capsys.readouterr().out.splitlines()) == 1
        assert await watchword(kubeconfig, "logs", "agent") == 4
        assert "no pod of the agent runs on this cluster" in capsys.readouterr().err
        pod = await the_operator(kubeconfig)

        shown = await asyncio.to_thread(kubectl_logs, kubeconfig, pod) if KUBECTL else whole

    assert '"manager": "watchword.dev/operator"' in whole
    assert shown.startswith(whole.splitlines()[0])


def kubectl_logs(kubeconfig: Path, pod: ObjectKey) -> str:
    command = [str(KUBECTL), f"--kubeconfig={kubeconfig}", "-n", pod.namespace, "logs", pod.name]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout


async def test_a_followed_log_ends_with_its_pod(tmp_path: Path) -> None:
    async with a_cluster_with_node(tmp_path / "hub") as kubeconfig:
        assert await watchword(kubeconfig, "init", "--wait", "--no-probe") == 0
        pod, client = await the_operator(kubeconfig), connect(kubeconfig)
        try:
            pieces = read_log(client, pod, LogRequest(follow=True))
            first = await anext(pieces)
            await client.delete(PODS, pod)
            rest = b"".join([piece async for piece in pieces])
        finally:
            await client.close()

    assert b"watchword.dev/operator" in first + rest
