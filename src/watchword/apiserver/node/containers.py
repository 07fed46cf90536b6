"""Which containers this node runs, and what they are started with: arguments, variables, paths of mounted files."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of, uid_of
from watchword.apiserver.admission.catalog import MOUNT_PATH
from watchword.apiserver.node.model import HttpProbe, Launch, NodeSettings
from watchword.apiserver.node.pod_logs import container_log

SERVICE_ACCOUNT = "WATCHWORD_SERVICE_ACCOUNT"
"""Where a process that is no pod finds the files of its ServiceAccount."""

INHERITED = ("PATH", "LANG", "LC_ALL", "TZ", "PYTHONPATH", "LD_LIBRARY_PATH")
"""All that a container gets of the server's own environment: credentials stay behind."""

PROGRAM = ["watchword"]
VOLUMES = frozenset({"name", "secret", "configMap", "projected", "downwardAPI", "emptyDir"})

_FORBIDDEN_VARIABLES = re.compile(
    r"(?:PYTHON|LD_|DYLD_|OPENSSL|SSL|GLIBC_|GCONV_|MALLOC_|WATCHWORD_|AWS_|BOTO).*|LOCPATH|NLSPATH|PATH|HOME|TMPDIR",
    re.IGNORECASE,
)
"""Variables that make an interpreter, a loader or a library read or run other files, and those of the node itself."""
_SEPARATORS = re.compile(r"([=,@:\s])")
"""What may stand around a path: flags, lists, `@file`, and lists like KUBECONFIG."""
_REFERENCE = re.compile(r"\$(\$|\(([^)]*)\))")
_KEYED = re.compile(r"^metadata\.(labels|annotations)\['([^']+)'\]$")


class UnmountedPath(Exception):
    """A text names a path outside of the pod's mounts; the message names it."""


def validate_runnable_pod(pod: Object, settings: NodeSettings) -> str | None:
    """Return why this node does not run a pod, or None when it does."""
    spec = pod.get("spec") or {}
    if spec.get("initContainers"):
        return "this node runs no init containers"
    for volume in spec.get("volumes") or ():
        unknown = volume.keys() - VOLUMES
        if unknown:
            return f"this node has no volumes of type {', '.join(sorted(unknown))}"
    mounts = [str(mount.get("mountPath")) for c in spec["containers"] for mount in c.get("volumeMounts") or ()]
    hostile = [path for path in mounts if not is_plain(path)]
    if hostile:
        return f"{hostile[0]!r} is not a place to mount at: use an absolute path without '..'"
    objections = (validate_runnable_container(pod, container, settings) for container in spec["containers"])
    return next(filter(None, objections), None)


def validate_runnable_container(pod: Object, container: Object, settings: NodeSettings) -> str | None:
    image = str(container.get("image") or "")
    if not is_served(image, settings.workloads.images):
        return f"image {image!r} is not served: this node runs only {', '.join(settings.workloads.images)}"
    if (container.get("command") or PROGRAM) != PROGRAM:
        return "this node runs only the image's own command: leave `command` out"
    arguments = [str(text) for text in container.get("args") or ()]
    if not arguments or arguments[0] not in settings.workloads.commands:
        return f"this node runs only the verbs {', '.join(settings.workloads.commands)}"
    variables = environment_of(pod, container)
    forbidden = next(filter(_FORBIDDEN_VARIABLES.fullmatch, variables), None)
    if forbidden is not None:
        return f"variable {forbidden!r} is not set here: it could make the process run other code"
    try:
        build_launch(pod, container, settings, {})
    except UnmountedPath as refusal:
        return str(refusal)
    return None


def is_served(image: str, names: Iterable[str]) -> bool:
    """Whether the image is one of ours, whatever its tag or digest."""
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}" in names


def is_plain(path: str) -> bool:
    """Whether a path is absolute and has no `..`."""
    parts = PurePosixPath(path).parts
    return path.startswith("/") and len(parts) > 1 and ".." not in parts


def pod_root(folder: Path, pod: Object) -> Path:
    """Return what the pod's containers know as `/`."""
    return folder / uid_of(pod) / "root"


def build_launch(pod: Object, container: Object, settings: NodeSettings, own: Mapping[str, str]) -> Launch:
    """Return a container as it is started; `own` is the server's environment. Raises `UnmountedPath`."""
    root = pod_root(settings.folder, pod)
    mounts = {str(row["mountPath"]): root / str(row["mountPath"]).lstrip("/") for row in mounts_of(container)}
    said = environment_of(pod, container)
    # As kubectl does, clients split KUBECONFIG at every colon.
    variables = {name: relocate(text, mounts, with_urls=name != "KUBECONFIG") for name, text in said.items()}
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


def relocate(text: str, mounts: Mapping[str, Path], *, with_urls: bool = True) -> str:
    """Map every path in a text to the file that represents it on this machine; raises `UnmountedPath`.

    Processes of this node see the machine's files: a path that is not mapped would be another user's file.
    """
    parts = _SEPARATORS.split(text)
    for index in range(0, len(parts), 2):
        is_url = parts[max(index - 2, 0) : index] in (["http", ":"], ["https", ":"]) and parts[index].startswith("//")
        if not (with_urls and is_url):
            parts[index] = _relocate_path(parts[index], mounts)
    return "".join(parts)


def _relocate_path(text: str, mounts: Mapping[str, Path]) -> str:
    path = PurePosixPath(text)
    if text.startswith("/") and ".." not in path.parts:
        for mount in sorted(mounts, key=len, reverse=True):
            if path.is_relative_to(mount):
                return str(mounts[mount] / path.relative_to(mount))
    if text.startswith(("/", "~")) or ".." in path.parts:
        raise UnmountedPath(f"{text!r} is not mounted: pods see only what is mounted into them")
    return text


def probe_of(pod: Object, container: Object, name: str) -> HttpProbe | None:
    row = container.get(name) or {}
    http = row.get("httpGet")
    if not http:
        return None
    named = {port.get("name"): port.get("containerPort") for port in container.get("ports") or ()}
    port = named.get(http.get("port"), http.get("port"))
    if not isinstance(port, int):
        return None
    host = str(http.get("host") or (pod.get("status") or {}).get("podIP") or "127.0.0.1")
    return HttpProbe(
        host,
        port,
        path=str(http.get("path") or "/"),
        timeout=float(row.get("timeoutSeconds") or 1),
        delay=float(row.get("initialDelaySeconds") or 0),
        period=float(row.get("periodSeconds") or 10),
        failure_threshold=int(row.get("failureThreshold") or 3),
    )
