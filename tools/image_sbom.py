"""The image's bill of materials in CycloneDX's form: Debian packages and wheels with their versions."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import quote, unquote


@dataclass(frozen=True, slots=True)
class Component:
    """A package in the image."""

    kind: str  # deb or pypi
    name: str
    version: str
    architecture: str = ""

    @property
    def purl(self) -> str:
        """The package's URL, by which databases of vulnerabilities name it."""
        place = f"debian/{self.name}" if self.kind == "deb" else self.name
        suffix = f"?arch={self.architecture}" if self.architecture else ""
        return f"pkg:{self.kind}/{place}@{quote(self.version, safe='.-~+')}{suffix}"


def deb_component(file: str) -> Component:
    """Return what the name of a package's file says: name, version and architecture."""
    name, version, architecture = unquote(file).removesuffix(".deb").split("_")
    return Component("deb", name, version, architecture)


def write_sbom(components: Iterable[Component], *, version: str) -> str:
    """Return the bill of materials; the same packages give the same text."""
    rows = [
        {"type": "library", "bom-ref": each.purl, "name": each.name, "version": each.version, "purl": each.purl}
        for each in sorted(set(components), key=lambda each: each.purl)
    ]
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "container", "name": "watchword", "version": version}},
        "components": rows,
    }
    return json.dumps(document, indent=1) + "\n"
