"""The AWS libraries are an extra: only a hub that asks AWS imports them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import watchword.registration.aws_irsa

FOLDER = Path(watchword.registration.aws_irsa.__file__).parent


def test_one_module_imports_boto3() -> None:
    importing = {
        path.name
        for path in FOLDER.glob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import) and any(alias.name == "boto3" for alias in node.names)
    }

    assert importing == {"boto.py"}


def test_hub_side_of_the_driver_imports_no_library_of_aws() -> None:
    program = "import sys, watchword.registration.aws_irsa.hub; print({'boto3', 'botocore'} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    "module", ["cli.agent", "cli.hub", "cli.up", "processes.agent", "processes.hub", "operator.process"]
)
def test_process_of_a_fleet_with_certificates_imports_no_library_of_aws(module: str) -> None:
    program = f"import sys, watchword.{module}; print({{'boto3', 'botocore', 'moto', 'awscli'}} & set(sys.modules))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "set()\n"
