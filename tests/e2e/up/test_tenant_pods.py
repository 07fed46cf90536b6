"""A tenant who may create ManifestWorks cannot run a program on the machine of `watchword up`."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import orjson
import pytest
from tests.helpers.server_decision import grant

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import service_account_user
from watchword.api.resources import MANIFEST_WORKS, PODS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.connect import connect, endpoint_of, make_client
from watchword.kube.credentials import Credential, FixedCredential
from watchword.kube.kubeconfig_files import read_kubeconfig
from watchword.kube.tokens import request_token
from watchword.runtime.event_loop import run
from watchword.testing.eventually import eventually

pytestmark = [pytest.mark.timeout(300)]
TENANT = ObjectKey("cluster1", "tenant")
POD = ObjectKey("default", "intruder")


def kubeconfig_that_runs(program: Path) -> bytes:
    """Return a kubeconfig whose credential is what a program prints."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(program), "interactiveMode": "Never"}
    return orjson.dumps(
        {
            "current-context": "a",
            "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
            "users": [{"name": "a", "user": {"exec": plugin}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        }
    )


def work_with(kubeconfig: bytes) -> Object:
    """Return a work with a pod of our own image, which connects by that kubeconfig."""
    files = {"kubeconfig": kubeconfig, "cluster-name": b"cluster1"}
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    container = {
        "name": "main",
        "image": "watchword",
        "args": ["sample-addon", "--hub-kubeconfig=/hub/kubeconfig", "--lease-namespace=default"],
        "volumeMounts": [{"name": "hub", "mountPath": "/hub"}],
    }
    volumes = [{"name": "hub", "secret": {"secretName": POD.name}}]
    spec = {"restartPolicy": "Never", "containers": [container], "volumes": volumes}
    manifests = [SECRETS.manifest(POD, data=data), PODS.manifest(POD, spec=spec)]
    return MANIFEST_WORKS.manifest(ObjectKey("cluster1", "intruder"), spec={"workload": {"manifests": manifests}})


async def connect_as_tenant(kubeconfig: Path, hub: Client) -> Client:
    """Return a client of an account that may create ManifestWorks for cluster1, and nothing else."""
    rule = {"apiGroups": [MANIFEST_WORKS.group], "resources": [MANIFEST_WORKS.plural], "verbs": ["create"]}
    await hub.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(TENANT))
    await grant(hub, TENANT, [rule], service_account_user(TENANT.namespace, TENANT.name))
    issued = await request_token(hub, TENANT, expiration_seconds=600)
    bearer = Credential(authorization=Sensitive(f"Bearer {issued.token.reveal()}"))
    return make_client(endpoint_of(read_kubeconfig(kubeconfig).choose("hub").cluster), FixedCredential(bearer))


@pytest.mark.slow
def test_pod_whose_kubeconfig_runs_a_program_fails_and_nothing_runs(start_up: Any, tmp_path: Path) -> None:
    trace, program = tmp_path / "trace", tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {trace}\n")
    program.chmod(0o700)
    folder = tmp_path / "fleet"
    up = start_up("--data-dir", str(folder), "--clusters=1")
    up.until("ready")

    async def intrude() -> tuple[Object, str]:
        hub, cluster = (connect(folder / "kubeconfig", context) for context in ("hub", "cluster1"))
        tenant = await connect_as_tenant(folder / "kubeconfig", hub)
        await tenant.create(MANIFEST_WORKS, work_with(kubeconfig_that_runs(program)))
        pod = await eventually(cluster, PODS, POD, _has_ended, within=90)
        log = await cluster.read(PODS.path(POD, subresource="log"))
        for client in (hub, cluster, tenant):
            await client.close()
        return pod, log.decode()

    pod, log = run(intrude())

    assert pod["status"]["phase"] == "Failed"
    assert "is an exec plugin, which pods of the process node do not run" in log
    assert not trace.exists()
    assert up.interrupt() == 0


def _has_ended(pod: Object | None) -> bool:
    return (pod or {}).get("status", {}).get("phase") in ("Failed", "Succeeded")
