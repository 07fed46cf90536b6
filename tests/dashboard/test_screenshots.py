"""The pictures of the documentation."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

from tools.screenshots import IMAGES, MAXIMUM_BYTES, SHOTS, render_terminal

ROOT = IMAGES.parents[1]
PICTURE = re.compile(r"!\[[^\]]+\]\(([^)]+)\)")


def test_every_picture_is_shown_small_and_made_by_the_command() -> None:
    shown = {
        (page.parent / path).resolve()
        for page in (ROOT / "README.md", *Path(ROOT / "docs").rglob("*.md"))
        for path in PICTURE.findall(page.read_text())
    }
    made = {IMAGES / f"{name}.png" for name, *_ in SHOTS} | {IMAGES / "up.svg"}

    assert set(IMAGES.iterdir()) == made == {path for path in shown if path.parent == IMAGES}
    assert all(path.stat().st_size <= MAXIMUM_BYTES for path in made)


def test_frame_of_a_terminal_becomes_text_of_a_picture() -> None:
    picture = ET.fromstring(render_terminal("\x1b[K\x1b[1mhub\x1b[0m <a & b>\r\r\n\x1b[K\x1b[32myes\x1b[0m\r\n\x1b[J"))
    lines = [[(span.text, span.get("fill")) for span in line] for line in picture if line.tag.endswith("text")]

    assert lines == [[("hub", "#ffffff"), (" <a & b>", "#dfe4ea")], [("yes", "#6fcf97")]]
