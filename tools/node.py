"""Runs a node of Kubernetes on this machine: kubelet, containerd, kube-proxy and a control plane of its own.

Its processes live in namespaces of their own (PID, mounts, network), so that ending the first of them leaves no
process, mount, bridge or route behind. A veth pair connects the node with this machine.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tools.envtest import NODE_PACKAGES, PACKAGES, alone_in, provide
from tools.node_images import import_image, provide_pause_image
from tools.node_processes import (
    CNI_PLUGINS,
    NODE_NAME,
    PAUSE,
    SECOND,
    NodeSettings,
    write_configuration,
)
from tools.node_processes import commands as commands_of
from watchword.testing.kube_apiserver_backend import cache_folder, chosen_release

ROOT = Path(__file__).parents[1]
FOLDER = Path("/var/tmp/watchword-node")  # noqa: S108 (a short path for sockets, a disk for overlays)
IMAGE = "watchword.invalid/watchword"
COMMANDS = ("go", "containerd", "ctr", "runc", "iptables", "ip", "unshare", "nsenter", "mount")
DEBIAN = "containerd runc containernetworking-plugins iptables iproute2 conntrack"
OWN_FOLDERS = ("/run", "/var/lib/cni", "/var/log/containers")
"""Where processes of a node write outside of its folder: empty for it, and gone with its mounts."""
CAPABILITIES = {
    "namespaces": "true",
    "overlay mounts": """
        mount -t tmpfs tmpfs /mnt && cd /mnt && mkdir lower upper work merged
        mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged""",
    "bridges and veth pairs": "ip link add v0 type veth peer name v1 && ip link add b0 type bridge",
    "iptables in a network namespace": "iptables --wait --table nat --append POSTROUTING --jump MASQUERADE",
    "writable cgroups": """
        cd /sys/fs/cgroup && { test -e cgroup.controllers || cd memory; }
        rmdir $(mktemp --directory --tmpdir=. watchword-trial-XXXXXX)""",
}
"""What a node does that a container's root may not be allowed to, each with a script that tries it."""
PATIENCE = 90.0
ADMINS = "kubeadm:cluster-admins"


class NodeError(Exception):
    """The node cannot be started; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that runs."""

    settings: NodeSettings
    pid: int  # of the process whose end ends the node
    gateway: str  # the address of this machine as the node sees it

    @property
    def kubeconfig(self) -> Path:
        return self.settings.admin_kubeconfig

    def inside(self, *command: str) -> list[str]:
        """Return a command in the network and among the processes of the node."""
        child = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()[0]
        return ["nsenter", f"--target={child}", "--net", "--mount", "--pid", *command]

    def hold(self, *names: str) -> None:
        """End processes of the node without starting them again."""
        for name in names:
            (self.settings.folder / "held" / name).touch()
        self.kill(*names)

    def release(self, *names: str) -> None:
        """Let held processes start again."""
        for name in names:
            (self.settings.folder / "held" / name).unlink(missing_ok=True)

    def kill(self, *names: str) -> None:
        """Kill processes of the node; those that are not held start again."""
        for name in names:
            pid = (self.settings.folder / "pids" / name).read_text()
            subprocess.run(self.inside("kill", "-9", pid), check=False, stderr=subprocess.DEVNULL)

    def lose_etcd(self) -> None:
        """Begin again with an empty etcd; keys, certificates and files of the node stay."""
        names = ("kube-apiserver", "etcd", *SECOND)
        self.hold(*names)
        until(lambda: not any(self.runs(name) for name in names), "the processes have ended")
        shutil.rmtree(self.settings.folder / "etcd")
        self.release("etcd", "kube-apiserver")
        complete(self, {})

    def runs(self, name: str) -> bool:
        """Whether a process of the node runs."""
        pid = (self.settings.folder / "pids" / name).read_text()
        return succeeds(self.inside("kill", "-0", pid))

    def restart_with(self, name: str, *flags: str) -> None:
        """Start a process of the node again, with these flags after its own."""
        self.hold(name)
        until(lambda: not self.runs(name), f"{name} has ended")
        path = self.settings.folder / "processes.json"
        commands = {**json.loads(path.read_text()), name: [*commands_of(self.settings)[name], *flags]}
        written = path.with_suffix(".new")
        written.write_text(json.dumps(commands))
        written.replace(path)  # the supervisor reads it at any time
        self.release(name)

    def cgroups(self) -> list[Path]:
        """Return the cgroups of the node's containers: containerd's own, because the kubelet names none."""
        tasks = self.settings.folder / "containerd" / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
        patterns = [f"{controller}k8s.io/{task.name}" for task in tasks.glob("*") for controller in ("", "*/")]
        return [path for pattern in patterns for path in Path("/sys/fs/cgroup").glob(pattern)]

    def containers(self, word: str) -> list[int]:
        """Return the processes of containers with this word in their command line."""
        found: set[int] = set()
        for path in self.cgroups():
            with suppress(OSError):  # what has ended meanwhile is none of them
                pids = (path / "cgroup.procs").read_text().split()
                found |= {int(pid) for pid in pids if word in Path(f"/proc/{pid}/cmdline").read_text()}
        return sorted(found)

    def stop(self) -> None:
        """End every process of the node and remove its files and cgroups."""
        cgroups = self.cgroups()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # its child, the first of the PID namespace, dies with it
        until(partial(has_ended, self.pid), "the node has ended")
        for path in cgroups:
            until(partial(removed, path), f"{path} is empty")
        shutil.rmtree(self.settings.folder)


def search_path() -> str:
    """Return where commands are looked for: as named, and where Go and the tools of root are by default."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin:/usr/local/go/bin"


def missing() -> list[str]:
    """Return what a node needs and this machine lacks; empty when it can run one."""
    wanted = [name for name in COMMANDS if shutil.which(name, path=search_path()) is None]
    if not any(Path(folder, "bridge").is_file() for folder in CNI_PLUGINS):
        wanted.append("containernetworking-plugins")
    if os.geteuid() != 0:
        wanted.insert(0, "root")
    return wanted or [name for name, script in CAPABILITIES.items() if not is_permitted(script)]


def is_permitted(script: str) -> bool:
    """Try in namespaces of its own what a node does: a container's root is not always allowed to."""
    command = ["unshare", "--mount", "--net", "--pid", "--fork", "sh", "-ec", script]
    return succeeds([shutil.which("env") or "env", f"PATH={search_path()}", *command])


def start(name: str, image: Path | None = None, pod_security: str = "privileged") -> Node:
    """Start a node, or return the one of this name that runs; `NodeError` says what is missing."""
    lacking = missing()
    if lacking:
        raise NodeError(f"a node needs {', '.join(lacking)}: run as root, and install Go and Debian's {DEBIAN}")
    running = find(name)
    if running is not None:
        return running
    os.environ["PATH"] = search_path()
    provide(cache_folder(), [*PACKAGES, *NODE_PACKAGES])
    pause = cache_folder().parent / "pause"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with alone_in(FOLDER):  # another node may start now: the network is taken once its device exists
        provide_pause_image("go", pause)
        node = create(FOLDER / name, free_network(), pod_security)
    try:
        complete(node, {PAUSE: pause, **({f"{IMAGE}:dev": image} if image else {})})
    except (NodeError, subprocess.SubprocessError):
        node.stop()
        raise
    return node


def create(folder: Path, network: int, pod_security: str) -> Node:
    """Write the files of a node and start its first processes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    settings = NodeSettings(folder, cache_folder(), f"10.99.{network}.2", chosen_release(), pod_security)
    write_configuration(settings)
    kubeadm(settings)
    for process in SECOND:
        (folder / "held" / process).touch()
    node = Node(settings, launch(settings, network), f"10.99.{network}.1")
    (folder / "node.json").write_text(json.dumps({"pid": node.pid, "network": network}))
    return node


def find(name: str) -> Node | None:
    """Return the node of this name if it runs."""
    try:
        kept = json.loads((FOLDER / name / "node.json").read_text())
        command = Path(f"/proc/{kept['pid']}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if str(FOLDER / name) not in command:
        return None
    settings = NodeSettings(FOLDER / name, cache_folder(), f"10.99.{kept['network']}.2", chosen_release())
    return Node(settings, kept["pid"], f"10.99.{kept['network']}.1")


def launch(settings: NodeSettings, network: int) -> int:
    """Start the supervisor in namespaces of its own, connect their network with this machine; return the process."""
    supervisor = [sys.executable, str(ROOT / "tools" / "node_supervisor.py"), str(settings.folder)]
    unshare = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    # The supervisor begins once the folders and the network are there: `read` waits for the end of its input.
    prepared = ["sh", "-c", 'read -r _; exec "$@"', "sh", *supervisor]
    with (settings.folder / "log" / "supervisor.log").open("wb") as log:
        process = subprocess.Popen(
            [*unshare, *prepared], stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True
        )
    assert process.stdin is not None
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    until(lambda: bool(children.read_text()), "the namespaces of the node exist")
    child = children.read_text().split()[0]
    device, inside = f"wwnode{network}", ["nsenter", f"--target={child}", "--net", "--mount"]
    run("ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", child)
    run("ip", "address", "add", f"10.99.{network}.1/24", "dev", device)
    run("ip", "link", "set", device, "up")
    for command in (
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{settings.address}/24", "dev", "eth0"),
        ("ip", "link", "set", "eth0", "up"),
        ("ip", "route", "add", "default", "via", f"10.99.{network}.1"),
        ("mount", "--make-rshared", "/"),
        *(("mount", "-t", "tmpfs", "tmpfs", path) for path in OWN_FOLDERS if Path(path).is_dir()),
        ("mkdir", "-p", "/run/netns", "/var/lib/cni"),
        ("sysctl", "-q", "-w", "net.ipv4.ip_forward=1"),
    ):
        run(*inside, *command)
    process.stdin.close()
    process.returncode = 0  # it runs on when this program ends
    return process.pid


def complete(node: Node, images: dict[str, Path]) -> None:
    """Wait for what every other process needs, start the others, and wait until the node takes pods."""
    settings = node.settings
    until(lambda: succeeds(settings.ctr("version")), "containerd answers")
    for name, layout in images.items():
        import_image(settings, layout, name)
    binding = ("clusterrolebinding", ADMINS, "--clusterrole=cluster-admin", f"--group={ADMINS}")
    ready = settings.kubectl("get", "--raw=/readyz", user="super-admin")
    until(lambda: succeeds(ready), "the API server is ready")
    run(*settings.kubectl("create", *binding, user="super-admin"))
    node.release(*SECOND)
    for state in ("create", "condition=Ready"):
        run(*settings.kubectl("wait", f"--for={state}", f"node/{NODE_NAME}", f"--timeout={PATIENCE:.0f}s"))
    run(*settings.kubectl("wait", "--for=create", "serviceaccount/default", f"--timeout={PATIENCE:.0f}s"))


def kubeadm(settings: NodeSettings) -> None:
    """Make certificates and kubeconfigs."""
    run(*settings.kubeadm("certs", "all"))
    run(*settings.kubeadm("kubeconfig", "all"), f"--kubeconfig-dir={settings.folder}")


def free_network() -> int:
    """Return a number whose addresses no device of this machine has."""
    used = run("ip", "-o", "-4", "address")
    return next(number for number in range(256) if f" 10.99.{number}." not in used)


def has_ended(pid: int) -> bool:
    """Whether a process is gone; one that this program started is collected."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    return not Path(f"/proc/{pid}").exists()


def removed(path: Path) -> bool:
    """Whether a cgroup could be removed."""
    try:
        path.rmdir()
    except OSError:
        return not path.exists()
    return True


def until(condition: Callable[[], bool], what: str) -> None:
    """Return once the condition holds; `NodeError` when it does not in time."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise NodeError(f"waited {PATIENCE:.0f} s in vain until {what}")
        time.sleep(0.1)


def succeeds(command: list[str]) -> bool:
    """Whether a command ends with 0."""
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def run(*command: str) -> str:
    """Run a command and return what it printed; `NodeError` with its last words when it fails."""
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise NodeError(f"`{' '.join(command)}` failed: {done.stderr.strip()[-500:]}")
    return done.stdout


def main() -> None:
    """Start a node and print where its kubeconfig is, or stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=("start", "stop"))
    parser.add_argument("--name", default="node")
    parser.add_argument("--image", type=Path, default=ROOT / "dist" / "image", help="OCI layout of `make image`")
    chosen = parser.parse_args()
    try:
        if chosen.command == "start":
            image = chosen.image if (chosen.image / "index.json").is_file() else None
            node = start(chosen.name, image)
            print(f"export KUBECONFIG={node.kubeconfig}" + (f" WATCHWORD_IMAGE={IMAGE}:dev" if image else ""))
        else:
            running = find(chosen.name)
            if running is not None:
                running.stop()
    except NodeError as error:
        sys.exit(f"node: {error}")


if __name__ == "__main__":
    main()
