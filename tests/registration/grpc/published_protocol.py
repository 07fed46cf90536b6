"""The published protocol, compiled by `protoc` for a client that is not ours."""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from grpc_tools import protoc


@dataclass(frozen=True, slots=True)
class PublishedProtocol:
    """The generated modules: messages and stubs."""

    messages: Any
    stubs: Any

    @property
    def service(self) -> Any:
        return self.stubs.CloudEventServiceStub


def compile_protocol(folder: Path) -> PublishedProtocol:
    """Compile `cloudevent.proto` into a folder and import the result."""
    source = Path(str(files("watchword.registration.grpc")))
    well_known = Path(str(files("grpc_tools"))) / "_proto"
    arguments = [f"-I{source}", f"-I{well_known}", f"--python_out={folder}", f"--grpc_python_out={folder}"]
    assert protoc.main(["protoc", *arguments, "cloudevent.proto"]) == 0
    sys.path.insert(0, str(folder))
    try:
        return PublishedProtocol(
            importlib.import_module("cloudevent_pb2"), importlib.import_module("cloudevent_pb2_grpc")
        )
    finally:
        sys.path.remove(str(folder))
