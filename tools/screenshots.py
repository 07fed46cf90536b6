"""Take the pictures of the documentation: `watchword up` in a terminal, and its dashboard in Chromium."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

from playwright.sync_api import Browser, ViewportSize, sync_playwright

from watchword.api.meta import ObjectKey
from watchword.api.resources import MANAGED_CLUSTERS
from watchword.kube.connect import connect

IMAGES = Path(__file__).parent.parent / "docs/images"
MAXIMUM_BYTES = 150_000
ROWS, COLUMNS = 36, 104
STARTS_WITHIN = 120.0  # seconds
FRAME = re.compile(r"(?:\x1b\[\d+A\r|\x1b\[2J)")  # where the screen is drawn again
CONTROL = re.compile(r"\x1b\[(?:K|J|\?\w+)")
STYLE = re.compile(r"\x1b\[([\d;]*)m")
ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+/\?code=[\w-]+")
COLORS = {"1": "#ffffff", "2": "#8b949e", "31": "#ff8a80", "32": "#6fcf97", "33": "#f2b155", "36": "#7db8f5"}
FONTS = "ui-monospace, SF Mono, Menlo, Consolas, DejaVu Sans Mono, monospace"
INK, PAPER = "#dfe4ea", "#14171c"
CHARACTER, LINE = 7.83, 18  # pixels, at 13 pixels of a monospaced font

WIDE: ViewportSize = {"width": 1360, "height": 760}
PHONE: ViewportSize = {"width": 390, "height": 760}
SHOTS = (
    ("dashboard", "#/", WIDE, "light"),
    ("dashboard-dark", "#/", WIDE, "dark"),
    ("dashboard-credentials", "#/credentials", WIDE, "light"),
    ("dashboard-phone", "#/credentials", PHONE, "light"),
)


@contextmanager
def start_fleet(folder: Path) -> Iterator[str]:
    """Run `watchword up` in a terminal; yield its first frame after the fleet is ready."""
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    scripts = Path(sys.executable).parent
    environment = {**os.environ, "TERM": "xterm-256color", "PATH": f"{scripts}:{os.environ['PATH']}"}
    command = ["watchword", "up", "--data-dir", str(folder), "--cluster-names", "lima,oslo,paris"]
    with subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment) as process:
        try:
            yield read_ready_frame(screen)
        finally:
            process.terminate()


def read_ready_frame(screen: int) -> str:
    shown, deadline = b"", time.monotonic() + STARTS_WITHIN
    while time.monotonic() < deadline:
        if select.select([screen], [], [], 1.0)[0]:
            shown += os.read(screen, 65536)
        frame = FRAME.split(shown.decode(errors="ignore"))[-1]
        if "ready in" in frame and ADDRESS.search(frame) and frame.endswith("\x1b[J"):
            return frame
    raise SystemExit(f"the fleet was not ready within {STARTS_WITHIN:.0f} seconds")


def render_terminal(frame: str) -> str:
    """Return a frame of a terminal as SVG."""
    lines = CONTROL.sub("", frame).replace("\r", "").rstrip().split("\n")
    height = (len(lines) + 2) * LINE
    rows = [_row(line, (number + 2) * LINE) for number, line in enumerate(lines)]
    size = f'width="{COLUMNS * CHARACTER + 32:.0f}" height="{height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{FONTS}" font-size="13">'
    return "\n".join([head, f'<rect width="100%" height="100%" rx="8" fill="{PAPER}"/>', *rows, "</svg>", ""])


def _row(line: str, at: int) -> str:
    style, column, spans = "", 0, []
    for number, part in enumerate(STYLE.split(line)):
        if number % 2:
            style = part
        elif part:
            color, weight = COLORS.get(style, INK), ' font-weight="bold"' if style == "1" else ""
            place, width = 16 + column * CHARACTER, len(part) * CHARACTER
            spans.append(
                f'<tspan x="{place:.1f}" textLength="{width:.1f}" fill="{color}"{weight}>{escape(part)}</tspan>'
            )
            column += len(part)
    return f'<text y="{at}" xml:space="preserve">{"".join(spans)}</text>'


async def add_waiting_cluster(kubeconfig: Path) -> None:
    """Let a cluster ask to join, so that the dashboard has something that needs attention."""
    client = connect(kubeconfig)
    spec = {"hubAcceptsClient": False, "leaseDurationSeconds": 60}
    await client.create(MANAGED_CLUSTERS, MANAGED_CLUSTERS.manifest(ObjectKey.cluster("nairobi"), spec=spec))
    await client.close()


def take_shots(browser: Browser, address: str) -> Iterator[tuple[str, bytes]]:
    page = browser.new_page(reduced_motion="reduce")
    page.goto(address)
    for name, path, size, scheme in SHOTS:
        page.set_viewport_size(size)
        page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
        page.goto(f"{address.partition('?')[0]}{path}")
        page.get_by_role("row").filter(has_text="nairobi" if path == "#/" else "paris").first.wait_for()
        page.wait_for_function("document.querySelector('[data-state=live]')")
        yield f"{name}.png", page.screenshot()


def main() -> None:
    """Write all pictures; each is small enough for a page that many read."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("no Chromium is installed: apt-get install chromium")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "fleet"
        with start_fleet(folder) as frame:
            address = ADDRESS.search(frame)
            assert address is not None
            asyncio.run(add_waiting_cluster(folder / "kubeconfig"))
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                pictures = dict(take_shots(browser, address[0]))
                browser.close()
        shown = re.sub(r"code=[\w-]+", "code=…", frame).replace(str(folder), "/home/me/fleet")
        pictures["up.svg"] = render_terminal(shown).encode()
    IMAGES.mkdir(exist_ok=True)
    for name, content in pictures.items():
        if len(content) > MAXIMUM_BYTES:
            raise SystemExit(f"{name} has {len(content)} bytes: at most {MAXIMUM_BYTES} are allowed")
        (IMAGES / name).write_bytes(content)
        print(f"docs/images/{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
