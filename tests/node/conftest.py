"""A real node for the tests of a session: started once, and checked for leftovers after every test."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.node.real_cluster import RealCluster

from tools import node as nodes

ROOT = Path(__file__).parents[2]
IMAGE_LAYOUT = Path(os.environ.get("WATCHWORD_IMAGE_LAYOUT") or ROOT / "dist" / "image")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run these tests when they are asked for by their marker, and on machines that can run a node."""
    reason = ""
    if "node" not in config.option.markexpr:
        reason = "needs a real node: run `make test-node`"
    elif lacking := nodes.missing():
        reason = f"a node needs {', '.join(lacking)}, which this machine lacks"
    elif not (IMAGE_LAYOUT / "index.json").is_file():
        reason = f"there is no image in {IMAGE_LAYOUT}: run `make image`"
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.node)
            item.add_marker(pytest.mark.timeout(1200))
            if reason:
                item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class SharedNode:
    """One node for the tests of a process; after a test that left something behind, the next gets a new one."""

    name: str
    current: nodes.Node | None = None

    def take(self) -> nodes.Node:
        self.current = self.current or nodes.start(self.name, IMAGE_LAYOUT, pod_security="restricted")
        return self.current

    def discard(self) -> None:
        if self.current is not None:
            self.current.stop()
            self.current = None


@pytest.fixture(scope="session")
def shared_node() -> Iterator[SharedNode]:
    name = f"test-{os.environ.get('PYTEST_XDIST_WORKER', 'main')}"
    shared = SharedNode(name, nodes.find(name))
    yield shared
    if not os.environ.get("WATCHWORD_KEEP_NODE"):
        shared.discard()


@pytest.fixture
def cluster(request: pytest.FixtureRequest, shared_node: SharedNode, tmp_path: Path) -> Iterator[RealCluster]:
    """A cluster with a node; after the test every object is as before."""
    found = RealCluster(shared_node.take(), tmp_path)
    before = found.objects()
    yield found
    if request.node.stash.get(HAS_FAILED, False):
        shared_node.discard()
        return
    try:
        found.await_objects(before)
    except AssertionError:
        shared_node.discard()
        raise


@dataclass(frozen=True)
class Fleet:
    """A hub of two replicas with itself as the member edge-1, and a cluster on this machine as edge-2.

    Add-ons have tokens on edge-1 and certificates on edge-2.
    """

    hub: RealCluster
    edge: RealCluster
    edge_url: str


@pytest.fixture(scope="module")
def fleet(shared_node: SharedNode, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A fleet that the tests of a module share; the node goes with it."""
    node, folder = shared_node.take(), tmp_path_factory.mktemp("fleet")
    hub = RealCluster(node, folder)
    serving = ("watchword", "apiserver", "--data-dir", "plane", "--port", "0", "--bind-address", node.gateway)
    with hub.running(*serving, "--node", "--node-image", nodes.IMAGE, ready="serving") as said:
        edge = replace(hub, administrator=folder / "plane" / "admin.kubeconfig")
        arguments = hub.init()
        hub.kubectl("annotate", "clustermanager", "cluster-manager", "watchword.dev/replicas=2")
        hub.join(arguments, "--addon-kubeclient-registration-auth", "token")
        hub.join(arguments, name="edge-2", member=edge)
        hub.await_rollouts()
        yield Fleet(hub, edge, said.split()[-1])
    shared_node.discard()


HAS_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the fixtures of a test that it failed."""
    report = yield
    item.stash[HAS_FAILED] = item.stash.get(HAS_FAILED, False) or report.failed
    return report
