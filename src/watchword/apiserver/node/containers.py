"""What a container is started with: its arguments and variables, with every reference resolved."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of, uid_of
from watchword.apiserver.admission.service_accounts import MOUNT_PATH
from watchword.apiserver.node.model import HttpProbe, Launch, NodeSettings
from watchword.apiserver.node.pod_logs import container_log

SERVICE_ACCOUNT = "WATCHWORD_SERVICE_ACCOUNT"
"""Where a process that is no pod finds the files of its ServiceAccount."""

INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH")
"""All that a container gets of the server's own environment: credentials stay behind."""

_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_KEYED = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


def pod_root(folder: Path, pod: Object) -> Path:
    """Return what the pod's containers know as `/`."""
    return folder / uid_of(pod) / "root"


def build_launch(pod: Object, container: Object, settings: NodeSettings, own: Mapping[str, str]) -> Launch:
    """Return a container of a bound pod as it is started; `own` is the server's environment."""
    root = pod_root(settings.folder, pod)
    mounts = {str(row["mountPath"]): root / str(row["mountPath"]).lstrip("/") for row in mounts_of(container)}
    said = environment_of(pod, container)
    variables = {name: relocate(text, mounts) for name, text in said.items()}
    arguments = [relocate(expand(str(text), said), mounts) for text in container.get("args") or ()]
    environment = {name: own[name] for name in INHERITED if name in own} | {
        # Not the server's home, whose kubeconfig belongs to another user.
        "HOME": str(root),
        "HOSTNAME": pod["metadata"]["name"],
        "KUBERNETES_SERVICE_HOST": settings.host,
        "KUBERNETES_SERVICE_PORT": str(settings.port),
        **({SERVICE_ACCOUNT: str(mounts[MOUNT_PATH])} if MOUNT_PATH in mounts else {}),
        **({"TMPDIR": str(mounts["/tmp"])} if "/tmp" in mounts else {}),  # noqa: S108 - the pod's own
        **variables,
        **settings.workloads.environment,
    }
    log = container_log(settings.folder, pod, container["name"])
    return Launch(ObjectKey.of(pod), container["name"], tuple(arguments), environment, root, log)


def mounts_of(container: Object) -> list[Object]:
    """Return the container's mounts."""
    return list(container.get("volumeMounts") or ())


def environment_of(pod: Object, container: Object) -> dict[str, str]:
    """Return the variables of a container; later ones may refer to earlier ones."""
    found: dict[str, str] = {}
    for row in container.get("env") or ():
        source = row.get("valueFrom") or {}
        if "fieldRef" in source:
            found[row["name"]] = read_field(pod, str(source["fieldRef"].get("fieldPath")))
        elif not source:
            found[row["name"]] = expand(str(row.get("value") or ""), found)
    return found


def read_field(pod: Object, path: str) -> str:
    """Return the value of a downward API path, empty when it is unknown."""
    keyed = _KEYED.match(path)
    if keyed:
        values = labels_of(pod) if keyed[1] == "labels" else annotations_of(pod)
        return values.get(keyed[2], "")
    value: object = pod
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)` as Kubernetes does: unknown names stay, `$$` becomes one `$`."""

    def replaced(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        return variables.get(match[2], match[0])

    return _REFERENCE.sub(replaced, text)


def relocate(text: str, mounts: Mapping[str, Path]) -> str:
    """Map paths below a mount to the files that represent it on this machine."""
    places = {mount.rstrip("/"): str(place) for mount, place in mounts.items()}
    if not places:
        return text
    # One pass, the longest first: what was replaced may itself look like a mount.
    names = "|".join(re.escape(mount) for mount in sorted(places, key=len, reverse=True))
    return re.sub(rf"(?<![^=,@\s])({names})(?=[/,\s]|$)", lambda match: places[match[1]], text)


def probe_of(pod: Object, container: Object, name: str) -> tuple[HttpProbe, Object] | None:
    """Return a probe of a container and its timing, None when there is none that this node supports."""
    row = container.get(name) or {}
    http = row.get("httpGet")
    if not http:
        return None
    named = {port.get("name"): port.get("containerPort") for port in container.get("ports") or ()}
    port = named.get(http.get("port"), http.get("port"))
    if not isinstance(port, int):
        return None
    host = str(http.get("host") or (pod.get("status") or {}).get("podIP") or "127.0.0.1")
    return HttpProbe(host, port, str(http.get("path") or "/"), float(row.get("timeoutSeconds") or 1)), row


def own_environment() -> Mapping[str, str]:
    """Return the server's environment."""
    return os.environ
