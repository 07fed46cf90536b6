"""Pods run with their identity, their files and their variables, and end as they should."""

from __future__ import annotations

import asyncio
import base64
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.apiserver.node.conftest import NodeHarness, TaskContainer, a_template

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CORE_EVENTS, PODS, SECRETS
from watchword.apiserver.controllers.event_expiry import EVENT_TTL
from watchword.apiserver.node.container_run import choose_backoff, is_restart_needed
from watchword.apiserver.node.containers import UnmountedPath, expand, is_served, relocate, validate_runnable_pod
from watchword.apiserver.node.model import Launch, NodeSettings
from watchword.apiserver.node.pod_factory import NodeEvents, PodFactory
from watchword.kube.connect import incluster_credential, incluster_endpoint, is_in_cluster
from watchword.local.workloads import WORKLOADS

SETTINGS = NodeSettings(Path("/pods"), "127.0.0.1", 6443, WORKLOADS)
BOOTSTRAP = {"name": "boot", "secret": {"secretName": "boot", "optional": True}}
MOUNT = {"name": "boot", "mountPath": "/spoke/bootstrap"}
MOUNTED = {"volumeMounts": [{"name": "a", "mountPath": "/etc/k"}]}


def kubeconfig(value: str) -> list[Object]:
    return [{"name": "KUBECONFIG", "value": value}]


async def a_pod(harness: NodeHarness, *arguments: str, **spec: Any) -> Object:
    """Create a pod as a workload's controller does, with its account's token mounted."""
    owner = {"apiVersion": "v1", "kind": "Node", "metadata": harness.get_node_metadata()}
    pod_factory = PodFactory(harness.registry, NodeEvents(harness.registry, harness.now, "test"))
    pod = await pod_factory.make(owner, a_template(*arguments, **spec))
    await harness.settles()
    return harness.get(PODS, pod["metadata"]["name"])


def root_of(container: TaskContainer) -> Path:
    return container.launch.root


async def test_a_pod_finds_its_identity_and_nothing_of_the_server(harness: NodeHarness) -> None:
    await a_pod(harness, "hub")
    (container,) = harness.runner.started

    environment = container.launch.environment
    assert is_in_cluster(environment)
    assert incluster_endpoint(environment).server == "https://127.0.0.1:6443"
    assert (await incluster_credential(environment).current()).authorization is not None
    assert environment["HOME"] == str(root_of(container))
    assert environment["AWS_CONFIG_FILE"] == environment["AWS_SHARED_CREDENTIALS_FILE"] == os.devnull
    assert "KUBECONFIG" not in environment


async def test_a_token_is_replaced_before_it_expires(harness: NodeHarness) -> None:
    await a_pod(harness, "hub")
    place = Path(harness.runner.started[0].launch.environment["WATCHWORD_SERVICE_ACCOUNT"]) / "token"
    first = place.read_bytes()

    await harness.settles(3607 * 0.79)
    assert place.read_bytes() == first
    await harness.settles(3607 * 0.02)

    assert place.read_bytes() != first
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


async def test_an_expired_token_is_replaced_after_the_clock_jumped_ahead(harness: NodeHarness) -> None:
    await a_pod(harness, "hub")
    place = Path(harness.runner.started[0].launch.environment["WATCHWORD_SERVICE_ACCOUNT"]) / "token"
    first = place.read_bytes()

    harness.ahead = timedelta(hours=2)
    await harness.settles(10)

    assert place.read_bytes() != first


async def test_mounted_secrets_are_private_files_that_follow_the_secret(harness: NodeHarness) -> None:
    arguments = ("agent", "--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig")
    await a_pod(harness, *arguments, volumes=[BOOTSTRAP], container={"volumeMounts": [MOUNT]})
    (container,) = harness.runner.started
    place = root_of(container) / "spoke/bootstrap/kubeconfig"
    assert container.launch.arguments[1] == f"--bootstrap-kubeconfig={place}"
    assert not place.exists()

    await harness.has(SECRETS, "boot", "apps", data={"kubeconfig": base64.b64encode(b"one").decode()})
    assert (place.read_bytes(), stat.S_IMODE(place.stat().st_mode)) == (b"one", 0o600)
    await harness.changes(SECRETS, "boot", lambda s: s["data"].update(kubeconfig=base64.b64encode(b"two").decode()))
    assert place.read_bytes() == b"two"
    await harness.registry.delete(SECRETS, ObjectKey("apps", "boot"))
    await harness.settles()
    assert not place.exists()


async def test_a_pod_waits_for_a_secret_that_it_must_have(harness: NodeHarness) -> None:
    volume = {"name": "boot", "secret": {"secretName": "boot"}}
    pod = await a_pod(harness, "agent", volumes=[volume], container={"volumeMounts": [MOUNT]})
    assert (pod["status"]["phase"], harness.runner.started) == ("Pending", [])
    assert "FailedMount" in {event["reason"] for event in harness.registry.list(CORE_EVENTS, "apps")}

    await harness.has(SECRETS, "boot", "apps", data={})

    assert len(harness.runner.started) == 1


async def test_warning_is_written_again_once_its_event_has_expired(harness: NodeHarness) -> None:
    events = NodeEvents(harness.registry, harness.now, "test")
    pod = await a_pod(harness, "hub")

    for _ in range(3):
        await events.warn(pod, "FailedMount", "no Secret")
    assert len(harness.registry.list(CORE_EVENTS, "apps")) == 1
    await harness.settles((EVENT_TTL + timedelta(seconds=1)).total_seconds())
    assert harness.registry.list(CORE_EVENTS, "apps") == []
    await events.warn(pod, "FailedMount", "no Secret")

    assert len(harness.registry.list(CORE_EVENTS, "apps")) == 1


@pytest.mark.parametrize("problem", [PermissionError(13, "Permission denied"), ValueError("embedded null byte")])
async def test_container_that_cannot_be_started_is_reported_and_deleted(
    harness: NodeHarness, problem: Exception
) -> None:
    def refuse(_: Launch) -> TaskContainer:
        raise problem

    harness.runner.make = refuse
    pod = await a_pod(harness, "hub", "a\0b")
    state = pod["status"]["containerStatuses"][0]
    assert state["lastState"]["terminated"]["reason"] == f"StartError: {problem.args[-1]}"

    await harness.registry.delete(PODS, ObjectKey.of(pod))
    await harness.settles()

    assert harness.pods() == []


async def test_a_container_that_fails_is_restarted_ever_more_slowly(harness: NodeHarness) -> None:
    harness.runner.script = [1, 1, 1]
    pod = await a_pod(harness, "hub")
    assert len(harness.runner.started) == 2  # the first restart is at once
    waiting = harness.get(PODS, pod["metadata"]["name"])["status"]["containerStatuses"][0]["state"]["waiting"]
    assert waiting["reason"] == "CrashLoopBackOff"

    await harness.settles(10)
    assert len(harness.runner.started) == 3
    await harness.settles(20)

    status = harness.get(PODS, pod["metadata"]["name"])["status"]["containerStatuses"][0]
    assert (status["restartCount"], status["ready"]) == (3, True)
    assert status["lastState"]["terminated"]["exitCode"] == 1


async def test_a_container_that_is_not_well_is_started_again(harness: NodeHarness) -> None:
    probe = {"httpGet": {"path": "/healthz", "port": 8000}, "periodSeconds": 10}
    await a_pod(harness, "hub", container={"livenessProbe": probe})
    harness.runner.started[0].well = False

    await harness.settles(60)

    assert await harness.runner.started[0].wait() == 137
    assert len(harness.runner.started) == 2


async def test_container_is_ready_when_its_probe_succeeds(harness: NodeHarness) -> None:
    harness.runner.make = lambda launch: TaskContainer(launch, well=False)
    probe = {"httpGet": {"path": "/readyz", "port": 8000}, "periodSeconds": 10}
    pod = await a_pod(harness, "hub", container={"readinessProbe": probe})
    assert not pod["status"]["containerStatuses"][0]["ready"]

    harness.runner.started[0].well = True
    await harness.settles(11)

    assert harness.get(PODS, pod["metadata"]["name"])["status"]["containerStatuses"][0]["ready"]


async def test_a_pod_that_does_not_end_when_asked_is_ended(harness: NodeHarness) -> None:
    harness.runner.make = lambda launch: TaskContainer(launch, heeds_terminate=False)
    pod = await a_pod(harness, "hub", terminationGracePeriodSeconds=7)
    before = asyncio.get_running_loop().time()

    await harness.registry.delete(PODS, ObjectKey.of(pod))
    code = await harness.runner.started[0].wait()

    assert code == 137
    assert asyncio.get_running_loop().time() - before == pytest.approx(7, abs=0.1)
    await harness.settles()
    assert harness.pods() == []


async def test_what_ran_before_a_restart_of_the_node_runs_again_in_the_same_pod(harness: NodeHarness) -> None:
    pod = await a_pod(harness, "hub")
    await harness.node.stop()
    assert not root_of(harness.runner.started[0]).exists()  # no secret stays on the disk

    await harness.start_node()
    await harness.settles()

    again = harness.get(PODS, pod["metadata"]["name"])
    assert len(harness.runner.started) == 2
    assert again["status"]["containerStatuses"][0]["restartCount"] == 1
    assert again["status"]["containerStatuses"][0]["lastState"]["terminated"]["reason"] == "NodeRestarted"


@pytest.mark.parametrize(
    ("spec", "objection"),
    [
        pytest.param({"image": "nginx"}, "image 'nginx' is not served", id="another image"),
        pytest.param({"command": ["sh"]}, "the image's own command", id="another program"),
        pytest.param({"args": ["apiserver"]}, "only the verbs", id="a verb that needs the machine"),
        pytest.param({"args": []}, "only the verbs", id="no verb"),
        pytest.param({"args": ["hub", "--kubeconfig=/root/.kube/config"]}, "is not mounted", id="a file outside"),
        pytest.param({"args": ["hub", "--kubeconfig=../../admin"]}, "is not mounted", id="a way out"),
        pytest.param({"args": ["hub", "--kubeconfig", "~/.kube/config"]}, "is not mounted", id="a home"),
        pytest.param({"env": [{"name": "KUBECONFIG", "value": "/admin"}]}, "is not mounted", id="by a variable"),
        pytest.param({"env": kubeconfig("/etc/k/own:/admin"), **MOUNTED}, "'/admin' is not mounted", id="in a list"),
        pytest.param({"env": kubeconfig("http://admin/x"), **MOUNTED}, "'//admin/x' is not mounted", id="as a URL"),
        pytest.param(
            {
                "args": ["hub", "--kubeconfig=$(A)"],
                "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['a']"}}}],
            },
            "'/admin' is not mounted",
            id="by an annotation",
        ),
        pytest.param({"env": [{"name": "PYTHONPATH", "value": "code"}]}, "'PYTHONPATH' is not set", id="module path"),
        pytest.param({"env": [{"name": "PYTHONSTARTUP", "value": "x"}]}, "is not set", id="interpreter"),
        pytest.param(
            {"env": [{"name": "AWS_CONFIG_FILE", "value": "x"}]}, "is not set", id="a file that names programs"
        ),
        pytest.param({"env": [{"name": "LD_PRELOAD", "value": "x.so"}]}, "is not set", id="loader"),
        pytest.param({"env": [{"name": "OPENSSL_CONF", "value": "x"}]}, "is not set", id="library"),
        pytest.param({"env": [{"name": "PATH", "value": "bin"}]}, "is not set", id="programs"),
        pytest.param({"env": [{"name": "WATCHWORD_X", "value": ""}]}, "is not set", id="the node's own"),
        pytest.param(
            {"volumeMounts": [{"name": "a", "mountPath": "/../etc"}]}, "not a place to mount at", id="a mount outside"
        ),
        pytest.param({"volumeMounts": [{"name": "a", "mountPath": "/"}]}, "not a place to mount at", id="the root"),
        pytest.param({}, None, id="ours"),
        pytest.param({"image": "watchword:1.2"}, None, id="with a tag"),
        pytest.param(
            {"args": ["hub", "--kubeconfig=/etc/k/config"], **MOUNTED},
            None,
            id="a mounted file",
        ),
        pytest.param({"env": kubeconfig("/etc/k/a:/etc/k/b"), **MOUNTED}, None, id="two mounted files"),
    ],
)
def test_which_pods_are_run(spec: Object, objection: str | None) -> None:
    pod = {
        "metadata": {"name": "a", "uid": "1", "annotations": {"a": "/admin"}},
        "spec": a_template(container=spec)["spec"],
    }

    verdict = validate_runnable_pod(pod, SETTINGS)

    assert verdict is None if objection is None else objection in (verdict or "")


@pytest.mark.parametrize(
    ("spec", "objection"),
    [
        pytest.param({"volumes": [{"name": "a", "hostPath": {"path": "/"}}]}, "hostPath", id="a folder of the machine"),
        pytest.param({"initContainers": [{"name": "a"}]}, "init containers", id="init containers"),
    ],
)
def test_which_pods_are_not_run(spec: Object, objection: str) -> None:
    assert objection in (validate_runnable_pod({"spec": a_template(**spec)["spec"]}, SETTINGS) or "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("$(A)-$(B)", "1-2", id="two"),
        pytest.param("$(C)", "$(C)", id="unknown stays"),
        pytest.param("$$(A)", "$(A)", id="escaped"),
        pytest.param("$A", "$A", id="not a reference"),
    ],
)
def test_expand(text: str, expected: str) -> None:
    assert expand(text, {"A": "1", "B": "2"}) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("--a=/spoke/hub/x", "--a=/pods/hub/x", id="below"),
        pytest.param("/spoke/hub", "/pods/hub", id="itself"),
        pytest.param("--a=/spoke/hub/x,/spoke/hub/y", "--a=/pods/hub/x,/pods/hub/y", id="a list"),
        pytest.param("/spoke/hub/x:/spoke/hub/y", "/pods/hub/x:/pods/hub/y", id="a list as KUBECONFIG is"),
        pytest.param("///spoke/./hub//x", "/pods/hub/x", id="spelled otherwise"),
        pytest.param("https://a:443/spoke/hub", "https://a:443/spoke/hub", id="part of a URL with a port"),
        pytest.param("https://a/spoke/hub", "https://a/spoke/hub", id="part of a URL"),
    ],
)
def test_relocate(text: str, expected: str) -> None:
    assert relocate(text, {"/spoke/hub": Path("/pods/hub"), "/pods": Path("/elsewhere")}) == expected


def test_a_place_below_another_mount_is_not_moved_twice() -> None:
    mounts = {"/tmp": Path("/tmp/data/pod/tmp"), "/spoke/hub": Path("/tmp/data/pod/hub")}
    assert relocate("--a=/spoke/hub/key --b=/tmp/x", mounts) == "--a=/tmp/data/pod/hub/key --b=/tmp/data/pod/tmp/x"


def test_is_served_by_name_alone() -> None:
    served = ("watchword", "registry:5000/a/watchword")

    assert is_served("watchword@sha256:00", served)
    assert is_served("registry:5000/a/watchword:v1", served)
    assert not is_served("evil/watchword", served)
    assert not is_served("watchword2", served)


@pytest.mark.parametrize(
    "text",
    [
        "/spoke/hubs",
        "//spoke/hub/x",
        "--a=/spoke/hub/x,/etc/b",
        "@/etc/b",
        "/spoke/hub/x:/etc/b",
        "file:///etc/b",
        "x:~/b",
    ],
)
def test_relocate_refuses_paths_outside_of_the_mounts(text: str) -> None:
    with pytest.raises(UnmountedPath):
        relocate(text, {"/spoke/hub": Path("/pods/hub")})


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 0.0), (2, 10.0), (3, 20.0), (6, 160.0), (7, 300.0), (4000, 300.0)]
)
def test_choose_backoff(failures: int, seconds: float) -> None:
    assert choose_backoff(failures) == seconds


@pytest.mark.parametrize(
    ("policy", "code", "again"),
    [("Always", 0, True), ("Always", 1, True), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Never", 1, False)],
)
def test_decide_restart(policy: str, code: int, again: bool) -> None:  # noqa: FBT001 - a column
    assert is_restart_needed(policy, code) is again
