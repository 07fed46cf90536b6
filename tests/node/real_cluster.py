"""What tests do with a real node, through the programs that an administrator uses."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tools.helm import find_helm
from tools.node import IMAGE, Node

PATIENCE = 300  # seconds: a bound for what never comes, on however busy a machine
PASSING = ("events", "events.events.k8s.io", "componentstatuses")  # kinds whose objects come and go by themselves
ROW = '{range .items[*]}{.apiVersion} {.kind}/{.metadata.namespace}/{.metadata.name}{"\\n"}{end}'


RESTRICTED = {  # what the Pod Security standard `restricted` asks of a container
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 65532,
    "seccompProfile": {"type": "RuntimeDefault"},
}


@dataclass(frozen=True)
class RealCluster:
    """A cluster with a node, its administrator, and a folder for files."""

    node: Node
    folder: Path
    image: str = f"{IMAGE}:dev"
    administrator: Path | None = None  # kubeconfig of another cluster; None: of the node's

    def with_image(self, image: str) -> RealCluster:
        return replace(self, image=image)

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        own = {"KUBECONFIG": str(self.administrator or self.node.kubeconfig), "HOME": str(self.folder)}
        own |= {"WATCHWORD_IMAGE": self.image} if self.image else {}
        folders = (self.node.settings.binaries, Path(sys.executable).parent, kept["PATH"], "/usr/sbin")
        return {**kept, **own, "PATH": ":".join(map(str, folders))}

    def run(self, *command: str, check: bool = True, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run a program as the administrator; its output is part of the failure."""
        done = subprocess.run(
            command, env=self.environment, cwd=self.folder, input=stdin, text=True, capture_output=True,
            timeout=2 * PATIENCE, check=False,
        )  # fmt: skip
        shown = "" if "json" in command else done.stdout
        sys.stdout.write(f"$ {' '.join(command[:12])}\n{shown}{done.stderr}")  # with the failure of a test
        assert done.returncode == 0 or not check, f"{command} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    def watchword(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.run("watchword", *arguments, check=check)

    def start(self, *command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command, env=self.environment, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )

    @contextmanager
    def running(self, *command: str, ready: str) -> Iterator[str]:
        """Run a program that stays; yield the line with which it says that it is ready."""
        process = self.start(*command)
        assert process.stdout is not None
        said: list[str] = []
        reader = threading.Thread(target=said.extend, args=(process.stdout,))
        try:
            for line in process.stdout:
                said.append(line)
                if ready in line:
                    break
            else:
                raise AssertionError(f"{command} ended: {''.join(said)}")
            reader.start()  # or a full pipe would stop the program
            yield line
        finally:
            process.terminate()
            process.wait()
            if reader.ident is not None:
                reader.join()
            process.stdout.close()

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
        return frozenset(row for row in done.stdout.split("\n") if row and "/kube-node-lease/" not in row)

    def await_objects(self, before: frozenset[str]) -> None:
        """Return once the objects are those of before: namespaces and pods end after the command that deletes them."""
        for row in sorted(self.objects() - before):
            version, _, rest = row.partition(" ")
            kind, namespace, name = rest.split("/", 2)
            group = version.rpartition("/")[0]
            resource = ".".join(filter(None, (kind.lower(), version.rpartition("/")[2] if group else "", group)))
            waiting = ("wait", "--for=delete", f"{resource}/{name}", f"--timeout={PATIENCE}s")
            self.kubectl(*waiting, *(("-n", namespace) if namespace else ()), check=False)
        now = self.objects()
        assert now == before, f"left: {sorted(now - before)}; gone: {sorted(before - now)}"

    def init(self, *flags: str) -> list[str]:
        """Make the cluster a hub; return the arguments of the join command up to the name of the cluster."""
        command = self.folder / "join"
        self.watchword("init", "--wait", "--output-join-command-file", str(command), *flags)
        words = command.read_text().split()
        return words[1:-1]

    def join(self, arguments: list[str], *flags: str, name: str = "edge-1", member: RealCluster | None = None) -> None:
        """Bring a cluster, by default this one, into this hub, and wait until it is; it renews its lease often."""
        joining = (member or self).start("watchword", *arguments, name, "--wait", *flags)
        try:
            self.watchword("accept", "--clusters", name, "--wait")
            said, _ = joining.communicate(timeout=PATIENCE)
        finally:
            joining.kill()
        assert joining.returncode == 0, said
        lease = json.dumps({"spec": {"leaseDurationSeconds": 10}})
        self.kubectl("patch", "managedcluster", name, "--type=merge", "-p", lease)
        self.await_rollouts()

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
        self.await_answer(f"https://{self.node.settings.address}:6443/readyz", "--fail")

    def await_answer(self, url: str, *flags: str) -> None:
        """Return once a server that starts answers; curl repeats the request."""
        again = (
            "--retry",
            str(PATIENCE),
            "--retry-delay",
            "1",
            "--retry-all-errors",
            "--retry-max-time",
            str(PATIENCE),
        )
        self.run("curl", "--silent", "--show-error", "--insecure", *again, *flags, url)

    def await_renewal(self, *lease: str) -> None:
        """Return once a Lease was renewed after this call; a hub that starts may still have to make it."""
        self.wait("create", *lease)
        before = self.get(*lease)["spec"]["renewTime"]
        self.watch("{.spec.renewTime}", lambda found: found > before, *lease)

    def wait_for_other(self, lease: str, namespace: str, holder: str) -> None:
        """Return once another replica holds a Lease."""
        self.watch("{.spec.holderIdentity}", lambda found: found not in ("", holder), "lease", lease, "-n", namespace)

    def watch(self, path: str, accepts: Callable[[str], bool], *arguments: str) -> str:
        """Return the first value at a path of an object that is accepted, as `kubectl get --watch` tells it."""
        command = ["kubectl", "get", *arguments, "--watch", "-o", f'jsonpath={path}{{"\\n"}}']
        process = subprocess.Popen(command, env=self.environment, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        ending = threading.Timer(PATIENCE, process.kill)
        ending.start()
        try:
            for line in process.stdout:
                if accepts(line.rstrip("\n")):
                    return line.rstrip("\n")
        finally:
            ending.cancel()
            process.kill()
            process.wait()
            process.stdout.close()
        raise AssertionError(f"{arguments} did not come to the expected {path} within {PATIENCE} s")

    def run_python(self, script: str, *, namespace: str, secret: str) -> str:
        """Run a script in a pod that has a Secret as files in /credential; return what it printed."""
        self.start_python(script, namespace=namespace, secret=secret)
        self.wait("jsonpath={.status.containerStatuses[0].state.terminated.reason}", "-n", namespace, "pod/script")
        said = self.kubectl("logs", "-n", namespace, "script")
        self.kubectl("delete", "pod", "-n", namespace, "script", "--grace-period=0", "--force")
        return said

    def start_python(self, script: str, *, namespace: str, secret: str) -> None:
        """Start the pod `script`, which has a Secret as files in /credential."""
        container = {
            "name": "main",
            "image": self.image,
            "command": ["/usr/bin/python3", "-u", "-c", script],
            "volumeMounts": [{"name": "credential", "mountPath": "/credential"}],
            "securityContext": RESTRICTED,
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
