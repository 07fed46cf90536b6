"""The usual commands of the real kubectl, and their output."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from watchword.testing.plane import Plane

pytestmark = [
    pytest.mark.real_time,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed"),
]

CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "red"}}
WIDGETS = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wg"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1, "description": "how big it is"}
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@dataclass
class Kubectl:
    """Runs kubectl as the administrator in one namespace."""

    kubeconfig: Path
    folder: Path
    namespace: str

    async def __call__(self, *arguments: str, fails: bool = False, **environment: str) -> str:
        """Return what it printed, ages made equal."""
        process = await self.start(*arguments, **environment)
        output, _ = await process.communicate()
        text = output.decode()
        assert (process.returncode != 0) is fails, text
        return re.sub(r"\b\d+[smh]\b", "1s", text).strip()

    async def start(self, *arguments: str, **environment: str) -> asyncio.subprocess.Process:
        """Start it and return the process; its output is one pipe."""
        return await asyncio.create_subprocess_exec(
            "kubectl",
            "--namespace",
            self.namespace,
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "HOME": str(self.folder), **environment},
        )

    def file(self, content: object) -> str:
        """Write a manifest and return its path."""
        path = self.folder / "manifest.yaml"
        path.write_text(yaml.safe_dump(content))
        return str(path)


@pytest.fixture
async def kubectl(plane: Plane, tmp_path: Path) -> Kubectl:
    return Kubectl(plane.kubeconfig, tmp_path, await plane.namespace("journey"))


async def test_apply_diff_edit_and_delete(kubectl: Kubectl) -> None:
    manifest = kubectl.file(CONFIG_MAP)
    assert await kubectl("apply", "-f", manifest) == "configmap/settings created"
    assert await kubectl("apply", "-f", manifest) == "configmap/settings unchanged"
    changed = kubectl.file({**CONFIG_MAP, "data": {"colour": "blue"}})
    assert "+  colour: blue" in await kubectl("diff", "-f", changed, fails=True)
    assert await kubectl("apply", "-f", changed) == "configmap/settings configured"
    assert await kubectl("apply", "--server-side", "-f", changed) == "configmap/settings serverside-applied"
    assert await kubectl("edit", "cm", "settings", EDITOR="sed -i s/blue/green/") == "configmap/settings edited"
    assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data.colour}") == "green"
    assert "deleted" in await kubectl("delete", "cm", "settings")
    assert "NotFound" in await kubectl("get", "cm", "settings", fails=True)


async def test_three_kinds_of_patch_label_and_annotate(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=k=v")
    await kubectl("patch", "cm", "c", "--type=merge", "-p", '{"data":{"a":"1"}}')
    await kubectl("patch", "cm", "c", "--type=json", "-p", '[{"op":"add","path":"/data/b","value":"2"}]')
    await kubectl("patch", "cm", "c", "-p", '{"data":{"c":"3"}}')
    assert await kubectl("label", "cm", "c", "tier=front") == "configmap/c labeled"
    assert await kubectl("annotate", "cm", "c", "note=x") == "configmap/c annotated"

    found = yaml.safe_load(await kubectl("get", "cm", "c", "-o", "yaml"))

    assert found["data"] == {"k": "v", "a": "1", "b": "2", "c": "3"}
    assert await kubectl("get", "cm", "-l", "tier=front", "-o", "name") == "configmap/c"


async def test_tables_look_as_everywhere(kubectl: Kubectl) -> None:
    await kubectl("create", "secret", "generic", "s", "--from-literal=k=v")
    await kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    await kubectl("create", "rolebinding", "b", "--role=r", "--user=eve")

    assert (await kubectl("get", "secret", "s")).splitlines() == [
        "NAME   TYPE     DATA   AGE",
        "s      Opaque   1      1s",
    ]
    assert (await kubectl("get", "rolebinding", "b", "-o", "wide")).splitlines() == [
        "NAME   ROLE     AGE   USERS   GROUPS   SERVICEACCOUNTS",
        "b      Role/r   1s    eve",
    ]


async def test_custom_resources_are_served_explained_and_validated(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", kubectl.file(WIDGETS))
    await kubectl("wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s")
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 3}}
    await kubectl("apply", "-f", kubectl.file(widget))

    assert (await kubectl("get", "wg")).splitlines() == ["NAME   SIZE", "w      3"]
    assert "how big it is" in await kubectl("explain", "widget.spec.size")
    refused = await kubectl("apply", "-f", kubectl.file({**widget, "spec": {"size": 0}}), fails=True)
    assert "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1" in refused
    status = '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
    await kubectl("patch", "wg", "w", "--subresource=status", "--type=merge", "-p", status)
    assert await kubectl("wait", "--for=condition=Ready", "wg/w") == "widget.example.com/w condition met"
    await kubectl("delete", "crd", "widgets.example.com")


async def test_rights_tokens_and_identities(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "robot")
    name = f"system:serviceaccount:{kubectl.namespace}:robot"
    assert await kubectl("auth", "can-i", "list", "pods", f"--as={name}", fails=True) == "no"
    await kubectl("create", "role", "reader", "--verb=list", "--resource=pods")
    await kubectl("create", "rolebinding", "reader", "--role=reader", f"--serviceaccount={kubectl.namespace}:robot")

    assert await kubectl("auth", "can-i", "list", "pods", f"--as={name}") == "yes"
    token = await kubectl("create", "token", "robot")
    whoami = await kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}", "--token", token)
    assert whoami


async def test_a_watch_prints_changes_as_they_come(kubectl: Kubectl) -> None:
    await kubectl("create", "secret", "generic", "first")
    watching = await kubectl.start("get", "secrets", "--watch", "-o", "name")
    try:
        assert watching.stdout is not None
        # The watch begins at the revision of the list that printed this line: later changes cannot be missed.
        assert await watching.stdout.readline() == b"secret/first\n"
        await kubectl("create", "secret", "generic", "second")

        assert await watching.stdout.readline() == b"secret/second\n"
    finally:
        watching.kill()
        await watching.communicate()


@pytest.mark.planes("embedded")  # elsewhere a controller manager would have to run
async def test_a_namespace_goes_with_everything_in_it(kubectl: Kubectl) -> None:
    await kubectl("create", "secret", "generic", "left")

    assert "deleted" in await kubectl("delete", "namespace", kubectl.namespace, "--timeout=20s")

    assert "NotFound" in await kubectl("get", "namespace", kubectl.namespace, fails=True)
