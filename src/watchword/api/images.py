"""The image of every process, unless an administrator names another."""

from __future__ import annotations

from watchword import __version__

REGISTRY = "ghcr.io"
REPOSITORY = "watchword/watchword"
IMAGE_NAME = f"{REGISTRY}/{REPOSITORY}"
IMAGE = f"{IMAGE_NAME}:{__version__}"
IMAGE_VARIABLE = "WATCHWORD_IMAGE"
"""The environment variable that names another image for every command."""
