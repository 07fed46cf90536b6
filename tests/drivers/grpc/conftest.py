from __future__ import annotations

import pytest
from tests.drivers.grpc.published_protocol import PublishedProtocol, compile_protocol


@pytest.fixture(scope="session")
def protocol(tmp_path_factory: pytest.TempPathFactory) -> PublishedProtocol:
    return compile_protocol(tmp_path_factory.mktemp("protocol"))
