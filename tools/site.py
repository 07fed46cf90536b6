"""Makes the built site complete: diagrams are drawn by a library of the site, and no page needs another host."""

from __future__ import annotations

import base64
import hashlib
import io
import re
import sys
import tarfile
import urllib.request
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"
LIBRARY = ROOT / "docs" / "assets" / "mermaid.min.js"
PACKAGE = "https://registry.npmjs.org/mermaid/-/mermaid-12.3.0.tgz"  # the major version that the theme is written for
PACKAGE_SHA512 = "4113TdXeLAsMruJ79OpFL5O8+LTFXhQqZ260rF3tgUmiNAtRm4Uume04I+65PRN6yZ69J4f8rVYWW8zRk65UYw=="
LIBRARY_SHA256 = "336df803d87a38b70a01e736e666c8f7601d2ce42f5e47c8fafe5d721074b9a3"
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src", "object": "data"}
METADATA = {"canonical", "alternate", "next", "prev"}  # links that a browser follows only when asked
EXTERNAL = re.compile(r"(?:https?:)?//")
PUBLIC_HOST = re.compile(r"https://(?:unpkg\.com|cdn\.jsdelivr\.net)/[^\"'`]*")


def main() -> None:
    """Provide the library before a build, or complete the built site."""
    if sys.argv[1:] == ["provide"]:
        provide(LIBRARY)
    elif sys.argv[1:] == ["complete"]:
        remove_public_hosts(SITE)
        if found := sorted(external_resources(SITE)):
            sys.exit("\n".join(["the site loads files from other hosts; copy them to docs/assets:", *found]))
    else:
        sys.exit("usage: python -m tools.site provide|complete")


def provide(library: Path) -> None:
    """Write the diagram library from its pinned package; instant when it is present."""
    if library.exists() and hashlib.sha256(library.read_bytes()).hexdigest() == LIBRARY_SHA256:
        return
    with urllib.request.urlopen(PACKAGE, timeout=180) as response:
        package = response.read()
    if hashlib.sha512(package).digest() != base64.b64decode(PACKAGE_SHA512):
        sys.exit(f"{PACKAGE} is not the package that tools/site.py pins; correct PACKAGE_SHA512 if you trust it")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        member = archive.extractfile("package/dist/mermaid.min.js")
        assert member is not None
        library.write_bytes(member.read())


def remove_public_hosts(site: Path) -> None:
    """Take the addresses out of the theme's script from which it loads optional libraries."""
    for script in (site / "assets" / "javascripts").glob("bundle.*.js"):
        script.write_text(PUBLIC_HOST.sub("about:blank", script.read_text()))


def external_resources(site: Path) -> Iterator[str]:
    """Return the files that pages and scripts load from other hosts, each with the page."""
    for page in site.rglob("*.html"):
        parser = _Resources()
        parser.feed(page.read_text())
        yield from (f"{page.relative_to(site)}: {address}" for address in parser.external)
    for script in (site / "assets").rglob("*.js"):
        yield from (f"{script.relative_to(site)}: {address}" for address in PUBLIC_HOST.findall(script.read_text()))


class _Resources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.external: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a browser loads with the page."""
        values = {name: value or "" for name, value in attrs}
        address = values.get(LOADED.get(tag, ""), "")
        if EXTERNAL.match(address) and values.get("rel") not in METADATA:
            self.external.append(address)


if __name__ == "__main__":
    main()
