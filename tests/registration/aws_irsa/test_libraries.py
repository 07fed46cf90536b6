"""The AWS libraries are an extra: only a hub that asks AWS imports them."""

from __future__ import annotations

import ast
from pathlib import Path

from tests.helpers.fresh_imports import modules_after

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


def test_processes_of_a_fleet_with_certificates_import_no_library_of_aws() -> None:
    names = ("cli.agent", "cli.hub", "cli.up", "processes.agent", "processes.hub", "operator.process")
    imported = modules_after("watchword.registration.aws_irsa.hub", *(f"watchword.{name}" for name in names))

    assert {"boto3", "botocore", "moto", "awscli"} & imported == set()
