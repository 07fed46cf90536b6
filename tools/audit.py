"""Reports known vulnerabilities of the locked dependencies, by pip-audit from a virtual environment of its own.

`make audit` ends with 1 when there is one. It says so when the database cannot be reached, and ends with 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

LOCKS = ("requirements-run.lock", "requirements.lock", "requirements-docs.lock")


def report(dependencies: Sequence[dict[str, Any]]) -> tuple[list[str], int]:
    """Return the lines to print and the exit code."""
    unknown = [row["name"] for row in dependencies if "skip_reason" in row]
    found = [
        f"{row['name']} {row['version']}: {bug['id']}, mended in {', '.join(bug['fix_versions']) or 'no version'}"
        for row in dependencies
        for bug in row.get("vulns", ())
    ]
    lines = [*found, f"{len(dependencies) - len(unknown)} dependencies checked, {len(found)} vulnerabilities known"]
    if unknown:
        lines.append(f"skipped, for the database of vulnerabilities does not answer about them: {', '.join(unknown)}")
    return lines, 1 if found else 0


def main() -> int:
    locks = [argument for lock in LOCKS for argument in ("-r", lock)]
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--progress-spinner=off", *locks]
    ran = subprocess.run([*command, "--format=json"], capture_output=True, text=True, check=False)
    try:
        lines, code = report(json.loads(ran.stdout)["dependencies"])
    except ValueError:
        problem = ran.stderr.strip().splitlines()
        lines, code = [f"skipped: pip-audit could not ask its database: {problem[-1] if problem else 'no answer'}"], 0
    sys.stdout.write("\n".join(lines) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
