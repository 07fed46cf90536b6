"""Which pods this node runs: Watchword's own, with nothing that reaches out of their folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import PurePosixPath

from watchword.api.meta import Object
from watchword.apiserver.node.containers import environment_of, expand, mounts_of
from watchword.apiserver.node.model import NodeSettings

PROGRAM = ["watchword"]
VOLUMES = frozenset({"name", "secret", "configMap", "projected", "downwardAPI", "emptyDir"})
_SEPARATORS = re.compile(r"[=,@\s]")
_FORBIDDEN_VARIABLES = re.compile(
    r"(?:PYTHON|LD_|DYLD_|OPENSSL|SSL|GLIBC_|GCONV_|MALLOC_|WATCHWORD_|AWS_|BOTO).*|LOCPATH|NLSPATH|PATH|HOME|TMPDIR",
    re.IGNORECASE,
)
"""Variables that make an interpreter, a loader or a library read or run other files, and those of the node itself."""


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
    """Return why a container is not run, or None when it is."""
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
    mounts = [str(mount["mountPath"]) for mount in mounts_of(container)]
    outside = find_unmounted([*(expand(text, variables) for text in arguments), *variables.values()], mounts)
    return f"{outside!r} is not mounted: pods see only what is mounted into them" if outside else None


def is_served(image: str, names: Iterable[str]) -> bool:
    """Whether the image is one of ours, whatever its tag or digest."""
    name = image.partition("@")[0]
    folder, slash, last = name.rpartition("/")
    return f"{folder}{slash}{last.partition(':')[0]}" in names


def find_unmounted(texts: Iterable[str], mounts: Iterable[str]) -> str | None:
    """Return the first path in the texts that lies outside of every mount.

    Processes of this node see the machine's files, so a path outside of the mounts would be another user's file.
    """
    places = [PurePosixPath(mount) for mount in mounts]
    for text in texts:
        for piece in _SEPARATORS.split(text):
            path = PurePosixPath(piece)
            if ".." in path.parts or piece.startswith("~"):
                return piece
            if piece.startswith("/") and not any(path.is_relative_to(place) for place in places):
                return piece
    return None


def is_plain(path: str) -> bool:
    """Whether a path is absolute and has no `..`."""
    parts = PurePosixPath(path).parts
    return path.startswith("/") and len(parts) > 1 and ".." not in parts
