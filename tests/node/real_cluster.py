"""What tests do with a real node, through the programs that an administrator uses."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.helm import find_helm
from tools.node import IMAGE, Node

PATIENCE = 120
PASSING = ("events", "events.events.k8s.io", "componentstatuses")  # kinds whose objects come and go by themselves
ROW = '{range .items[*]}{.kind}/{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'


@dataclass(frozen=True)
class RealCluster:
    """A cluster with a node, its administrator, and a folder for files."""

    node: Node
    folder: Path
    image: str = f"{IMAGE}:dev"

    def with_image(self, image: str) -> RealCluster:
        return replace(self, image=image)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        own = {"KUBECONFIG": str(self.node.kubeconfig), "HOME": str(self.folder)}
        own |= {"WATCHWORD_IMAGE": self.image} if self.image else {}
        folders = (self.node.settings.binaries, Path(sys.executable).parent, kept["PATH"], "/usr/sbin")
        return {**kept, **own, "PATH": ":".join(map(str, folders))}

    def run(self, *command: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program as the administrator; its output is part of the failure."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, input=stdin, text=True, capture_output=True,
            timeout=PATIENCE, check=False,
        )  # fmt: skip
        shown = "" if "json" in command else done.stdout
        sys.stdout.write(f"$ {' '.join(command[:12])}\n{shown}{done.stderr}")  # with the failure of a test
        assert done.returncode == 0 or not check, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def watchword(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("watchword", *arguments, check=check)

    def start_watchword(self, *arguments: str) -> subprocess.Popen[str]:
        command = ["watchword", *arguments]
        return subprocess.Popen(
            command, env=self.environment, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    def kubectl(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        return self.run("kubectl", *arguments, check=check, stdin=stdin).stdout

    def helm(self, *arguments: str) -> str:
        return self.run(str(find_helm()), "--namespace=open-cluster-management", *arguments).stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def secret_text(self, name: str, namespace: str, key: str) -> str:
        return base64.b64decode(self.get("secret", name, "-n", namespace)["data"][key]).decode()

    def wait(self, condition: str, *arguments: str) -> None:
        self.kubectl("wait", f"--for={condition}", *arguments, f"--timeout={PATIENCE}s")

    def objects(self) -> frozenset[str]:
        """Return kind, namespace and name of every object."""
        kinds = set(self.kubectl("api-resources", "--verbs=list", "-o", "name").split()) - set(PASSING)
        listing = ["kubectl", "get", ",".join(sorted(kinds)), "-A", "-o", f"jsonpath={ROW}"]
        done = subprocess.run(listing, env=self.environment, check=False, capture_output=True, text=True)
        return frozenset(row for row in done.stdout.split("\n") if not row.startswith("Lease/kube-node-lease/"))

    def await_objects(self, before: frozenset[str]) -> None:
        """Return once the objects are those of before: namespaces and pods end after the command that deletes them."""
        deadline = time.monotonic() + PATIENCE / 2
        while (now := self.objects()) != before and time.monotonic() < deadline:
            time.sleep(1)
        assert now == before, f"left: {sorted(now - before)}; gone: {sorted(before - now)}"

    def init(self, *flags: str) -> list[str]:
        """Make the cluster a hub; return the arguments of the join command up to the name of the cluster."""
        command = self.folder / "join"
        self.watchword("init", "--wait", "--output-join-command-file", str(command), *flags)
        words = command.read_text().split()
        return words[1:-1]

    def join(self, arguments: list[str], *flags: str, name: str = "edge-1") -> None:
        """Bring this cluster into the hub, and wait until it is."""
        joining = self.start_watchword(*arguments, name, "--wait", *flags)
        try:
            self.watchword("accept", "--clusters", name, "--wait")
            said, _ = joining.communicate(timeout=PATIENCE)
        finally:
            joining.kill()
        assert joining.returncode == 0, said

    def leave_and_clean(self, name: str = "edge-1") -> None:
        self.watchword("unjoin", "--cluster-name", name)
        self.kubectl("delete", "managedcluster", name)
        self.watchword("clean", "--yes", "--delete-kinds")

    def await_rollouts(self) -> None:
        """Return once every Deployment runs as it should."""
        for row in self.get("deployments", "-A")["items"]:
            place, name = row["metadata"]["namespace"], row["metadata"]["name"]
            self.kubectl("rollout", "status", "-n", place, f"deployment/{name}", f"--timeout={PATIENCE}s")

    def await_server(self) -> None:
        """Return once the API server answers again."""
        ready = ("kubectl", "get", "--raw=/readyz")
        self.poll(lambda: self.run(*ready, check=False).returncode == 0, "the API server is ready")

    def await_renewal(self, *lease: str) -> None:
        """Return once a Lease was renewed after this call."""
        before = self.get(*lease)["spec"]["renewTime"]
        self.poll(lambda: self.get(*lease)["spec"]["renewTime"] > before, f"{lease} is renewed")

    def wait_for_other(self, lease: str, namespace: str, holder: str) -> None:
        """Return once another replica holds a Lease."""
        arguments = ("lease", lease, "-n", namespace)
        self.poll(lambda: self.get(*arguments)["spec"].get("holderIdentity") not in ("", holder), f"{lease} moves")

    def poll(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, f"waited {PATIENCE} s in vain until {what}"
            time.sleep(1)

    def run_python(self, script: str, *, namespace: str, secret: str) -> str:
        """Run a script in a pod that has a Secret as files in /credential; return what it printed."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["/usr/bin/python3", "-c", script],
            "volumeMounts": [{"name": "credential", "mountPath": "/credential"}],
        }
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "script", "namespace": namespace},
            "spec": {
                "automountServiceAccountToken": False,
                "restartPolicy": "Never",
                "containers": [container],
                "volumes": [{"name": "credential", "secret": {"secretName": secret}}],
            },
        }
        self.kubectl("create", "-f", "-", stdin=json.dumps(pod))
        self.wait("jsonpath={.status.containerStatuses[0].state.terminated.reason}", "-n", namespace, "pod/script")
        said = self.kubectl("logs", "-n", namespace, "script")
        self.kubectl("delete", "pod", "-n", namespace, "script", "--grace-period=0", "--force")
        return said
