from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from tests.helpers.fleet import FleetHarness
from tests.registration.grpc.grpc_fleet import GrpcFleet, run_grpc_fleet
from tests.registration.grpc.grpc_hub import GrpcHub, run_grpc_hub
from tests.registration.grpc.published_protocol import PublishedProtocol, compile_protocol


@pytest.fixture(scope="session")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> PublishedProtocol:
    return compile_protocol(tmp_path_factory.mktemp("protocol"))


@pytest_asyncio.fixture
async def hub(fleet: FleetHarness, protocol: PublishedProtocol, tmp_path: Path) -> AsyncIterator[GrpcHub]:
    """A hub whose gRPC server the test starts."""
    async with run_grpc_hub(fleet, protocol, tmp_path) as running:
        yield running


@pytest_asyncio.fixture
async def grpc_fleet(fleet: FleetHarness, tmp_path: Path) -> AsyncIterator[GrpcFleet]:
    """A hub with a gRPC server, and clusters that register over it."""
    async with run_grpc_fleet(fleet, tmp_path) as running:
        yield running
