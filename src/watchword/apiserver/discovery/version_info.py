"""The document of `/version`: the Kubernetes release whose API is served here."""

from __future__ import annotations

import platform

from watchword import __version__
from watchword.api.meta import Object

KUBERNETES = (1, 35)


def version_info() -> Object:
    """Return the version of the API, marked as Watchword's own implementation of it."""
    major, minor = KUBERNETES
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "major": str(major),
        "minor": str(minor),
        "emulationMajor": str(major),
        "emulationMinor": str(minor),
        "minCompatibilityMajor": str(major),
        "minCompatibilityMinor": str(minor - 1),
        "gitVersion": f"v{major}.{minor}.0+watchword.{__version__.replace('+', '.')}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": platform.python_implementation().lower(),
        "platform": f"{platform.system().lower()}/{machine}",
    }
