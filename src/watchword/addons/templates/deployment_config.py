"""Reads an AddOnDeploymentConfig: how the agent of an add-on is deployed on a cluster."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct, field

from watchword.api.meta import Object, mapping_at, rows_at


class ImageMirror(Struct, frozen=True):
    """Where images come from instead."""

    source: str  # the beginning of an image's name; empty: every image
    mirror: str

    def rewrite(self, image: str) -> str:
        source, mirror = self.source.removesuffix("/"), self.mirror.removesuffix("/")
        if not mirror or not image.startswith(source):
            return image
        return mirror + image.removeprefix(source) if source else f"{mirror}/{image.rpartition('/')[2]}"


class DeploymentConfig(Struct, frozen=True):
    """What an AddOnDeploymentConfig says; the defaults change nothing."""

    variables: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""  # empty: where the template says
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Object] | None = None
    registries: tuple[ImageMirror, ...] | None = None
    proxy_variables: tuple[tuple[str, str], ...] = ()  # of the proxy through which an agent reaches its hub
    proxy_ca: str = ""  # PEM; what cannot be decoded is left out
    resources: tuple[tuple[str, Object], ...] = ()  # of containers, by the pattern of their id; the last match counts

    @classmethod
    def read(cls, obj: Object) -> DeploymentConfig:
        spec, placement = mapping_at(obj, "spec"), mapping_at(obj, "spec", "nodePlacement")
        return cls(
            variables={
                str(row.get("name")): str(row.get("value") or "") for row in rows_at(spec, "customizedVariables")
            },
            namespace=str(spec.get("agentInstallNamespace") or ""),
            node_selector=placement.get("nodeSelector"),
            tolerations=placement.get("tolerations"),
            registries=None if spec.get("registries") is None else read_mirrors(rows_at(spec, "registries")),
            proxy_variables=_proxy_variables(mapping_at(spec, "proxyConfig")),
            proxy_ca=_proxy_ca(mapping_at(spec, "proxyConfig")),
            resources=tuple(
                (str(row.get("containerID")), dict(mapping_at(row, "resources")))
                for row in rows_at(spec, "resourceRequirements")
            ),
        )

    def resources_of(self, container: str) -> Object | None:
        """Return the resources of a container, by kind, name and container; None when nothing is said."""
        found = [resources for pattern, resources in self.resources if _matches(pattern, container)]
        return found[-1] if found else None


def read_mirrors(rows: Iterable[Mapping[str, Any]]) -> tuple[ImageMirror, ...]:
    return tuple(ImageMirror(str(row.get("source") or ""), str(row.get("mirror") or "")) for row in rows)


def mirrors_from_annotation(text: str) -> tuple[ImageMirror, ...]:
    """Read the mirrors that a ManagedCluster names in its annotation; none when it cannot be read."""
    try:
        return read_mirrors(orjson.loads(text or "{}").get("registries") or ())
    except (AttributeError, TypeError, ValueError):
        return ()


def rewrite_image(image: str, mirrors: Iterable[ImageMirror]) -> str:
    found = [name for mirror in mirrors if (name := mirror.rewrite(image)) != image]
    return found[-1] if found else image


def _matches(pattern: str, container: str) -> bool:
    wanted, parts = pattern.split(":"), container.split(":")
    return len(wanted) == len(parts) and all(
        part == given or (part == "*" and given) for part, given in zip(wanted, parts, strict=True)
    )


def _proxy_variables(row: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(
        (spelling, str(row[field]))
        for field, name in (("httpProxy", "HTTP_PROXY"), ("httpsProxy", "HTTPS_PROXY"), ("noProxy", "NO_PROXY"))
        if row.get(field)
        for spelling in (name, name.lower())
    )


def _proxy_ca(row: Mapping[str, Any]) -> str:
    try:
        return base64.b64decode(row.get("caBundle") or "", validate=True).decode()
    except (TypeError, ValueError):  # no base64, characters beyond ASCII, or no UTF-8 inside
        return ""
