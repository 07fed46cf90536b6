"""A join command is printed only when a cluster can join by it."""

from __future__ import annotations

import pytest

from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.hub_setup import HubSetup, set_up_hub
from watchword.admin.init import await_signature, choose_warnings, read_join_flags, require_joinable_hub
from watchword.discovery.cluster_info import ClusterInfo
from watchword.discovery.token_secret import TokenRecord, TokenUsage
from watchword.discovery.tokens import BootstrapToken
from watchword.pki.certificates import split_bundle
from watchword.testing.plane import Plane

HUB_ARN = "arn:aws:eks:us-west-2:111122223333:cluster/fleet-hub"
pytestmark = pytest.mark.planes("embedded")  # what others left on the real one would be found


async def test_a_cluster_that_publishes_nothing_is_refused(plane: Plane) -> None:
    with pytest.raises(OperationRefused, match="run `watchword init`"):
        await require_joinable_hub(plane.client(), TokenRecord(BootstrapToken.generate()))


async def test_a_token_that_cannot_prove_the_hub_is_refused(plane: Plane) -> None:
    record = TokenRecord(BootstrapToken.generate(), usages=(TokenUsage.AUTHENTICATION,))

    with pytest.raises(OperationRefused, match="both usages"):
        await require_joinable_hub(plane.client(), record)


@pytest.mark.parametrize(
    ("drivers", "settings", "expected"),
    [
        pytest.param(("csr",), {}, {"csr": ""}, id="nothing to add"),
        pytest.param(
            ("aws-irsa",),
            {"--eks-hub-cluster-arn": HUB_ARN},
            {
                "aws-irsa": f"--registration-auth aws-irsa --eks-hub-cluster-arn {HUB_ARN} --managed-cluster-arn "
                "MANAGED_CLUSTER_ARN --addon-kubeclient-registration-auth token"
            },
            id="aws-irsa",
        ),
        pytest.param(
            ("grpc", "csr"),
            {"--grpc-server-hosts": "grpc.example.com"},
            {
                "csr": "",
                "grpc": "--registration-auth grpc --grpc-server grpc.example.com:443 --grpc-ca-file GRPC_CA_FILE",
            },
            id="the default driver first",
        ),
    ],
)
async def test_join_command_has_the_flags_of_the_hubs_driver(
    plane: Plane, drivers: tuple[str, ...], settings: dict[str, str], expected: dict[str, str]
) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await set_up_hub(plane.client(), HubSetup(info, drivers=drivers, settings=settings, deploy=False))

    flags = await read_join_flags(plane.client())

    assert [(name, " ".join(words)) for name, words in flags.items()] == list(expected.items())


def test_certificates_are_warned_of_on_an_eks_hub(plane: Plane) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    settings = {"--eks-hub-cluster-arn": HUB_ARN}

    assert "cannot register by csr" in choose_warnings(HubSetup(info, ("csr", "aws-irsa"), settings))[0]
    assert choose_warnings(HubSetup(info, ("grpc", "aws-irsa"), settings)) == []


async def test_a_hub_that_does_not_sign_is_told(plane: Plane) -> None:
    info = ClusterInfo(("https://hub.test:6443",), split_bundle(plane.ca_pem))
    await set_up_hub(plane.client(), HubSetup(info, deploy=False))
    token = BootstrapToken.generate()

    assert await require_joinable_hub(plane.client(), TokenRecord(token)) == info
    with pytest.raises(NotReady, match=f"not signed for token {token.id}.*do the hub's controllers run"):
        await await_signature(plane.client(), token.id)
