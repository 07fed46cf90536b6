"""A join command is printed only when a cluster can join by it."""

from __future__ import annotations

import pytest

from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.admin.init import await_signature, require_joinable_hub
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.token_secret import TokenRecord, TokenUsage
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.certificates import split_bundle
from watchword.testing.plane import Plane

pytestmark = pytest.mark.planes("embedded")  # what others left on the real one would be found


async def test_a_cluster_that_publishes_nothing_is_refused(plane: Plane) -> None:
    with pytest.raises(OperationRefused, match="run `watchword init`"):
        await require_joinable_hub(plane.client(), TokenRecord(BootstrapToken.generate()))


async def test_a_token_that_cannot_prove_the_hub_is_refused(plane: Plane) -> None:
    record = TokenRecord(BootstrapToken.generate(), usages=(TokenUsage.AUTHENTICATION,))

    with pytest.raises(OperationRefused, match="both usages"):
        await require_joinable_hub(plane.client(), record)


async def test_a_hub_that_does_not_sign_is_told(plane: Plane) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await set_up_hub(plane.client(), HubSetup(info, deploy=False))
    token = BootstrapToken.generate()

    assert await require_joinable_hub(plane.client(), TokenRecord(token)) == info
    with pytest.raises(NotReady, match=f"not signed for token {token.id}.*do the hub's controllers run"):
        await await_signature(plane.client(), token.id)
