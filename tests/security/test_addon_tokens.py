"""Tokens that the agent of a cluster tries to have for others than the hub, or for ever."""

from __future__ import annotations

import contextlib

import pytest
from tests.addons.fleet import AddonFleet
from tests.helpers.server_decision import grant, until_refused
from tests.security.compromised_agent import taken_over

from watchword.api.meta import ObjectKey
from watchword.api.names import ConditionType
from watchword.api.rbac import rules_of
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Forbidden
from watchword.kube.tokens import request_token
from watchword.registration.grpc.driver import SERVER_RULES
from watchword.registration.hub.installation import install_agent_token_policy

READY = ConditionType.TOKEN_INFRASTRUCTURE_READY
YEAR = 365 * 24 * 3600


@pytest.fixture
async def agent(addons: AddonFleet) -> tuple[Client, ObjectKey]:
    """An attacker with an agent's credential, and an account whose tokens that agent may request."""
    await install_agent_token_policy(addons.client)
    cluster = await addons.cluster()
    await addons.says(await addons.enable("reporter", cluster), READY)
    await addons.stop_agent(cluster)
    intruder, account = await taken_over(addons.members, cluster), ObjectKey(cluster, f"{cluster}-reporter-agent")
    await until_refused(lambda: request_token(intruder, account, expiration_seconds=YEAR, audiences=["elsewhere"]))
    return intruder, account


@pytest.mark.parametrize(
    ("seconds", "audiences"),
    [
        pytest.param(3600, ["https://vault.example.com"], id="another audience"),
        pytest.param(3600, ["https://kubernetes.default.svc", "vault"], id="another audience beside the hub"),
        pytest.param(10 * YEAR, [], id="ten years"),
    ],
)
async def test_no_token_for_others_or_for_ever(
    agent: tuple[Client, ObjectKey], seconds: int, audiences: list[str]
) -> None:
    intruder, account = agent
    with pytest.raises(Forbidden, match="agents may request"):
        await request_token(intruder, account, expiration_seconds=seconds, audiences=audiences)


async def test_token_for_a_year_is_given_as_agents_ask_for_it(agent: tuple[Client, ObjectKey]) -> None:
    intruder, account = agent
    granted = await request_token(intruder, account, expiration_seconds=YEAR)
    assert granted.token.reveal()


async def test_administrators_ask_for_what_they_like(addons: AddonFleet, agent: tuple[Client, ObjectKey]) -> None:
    granted = await request_token(addons.client, agent[1], expiration_seconds=2 * YEAR, audiences=["vault"])
    assert granted.token.reveal()


@pytest.mark.parametrize(
    ("namespace", "name"),
    [
        pytest.param("kube-system", "other-agent", id="outside the namespaces of clusters"),
        pytest.param("", "default", id="another account of the cluster's namespace"),
    ],
)
async def test_grpc_server_has_no_tokens_of_accounts_that_are_not_of_addons(
    addons: AddonFleet, agent: tuple[Client, ObjectKey], namespace: str, name: str
) -> None:
    account = ObjectKey(namespace or agent[1].namespace, name)
    with contextlib.suppress(AlreadyExists):
        await addons.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(account))

    with pytest.raises(Forbidden, match="the gRPC server may request tokens of add-ons' accounts"):
        await request_token(await grpc_server(addons), account, expiration_seconds=3600)


async def test_grpc_server_has_tokens_of_addons(addons: AddonFleet, agent: tuple[Client, ObjectKey]) -> None:
    granted = await request_token(await grpc_server(addons), agent[1], expiration_seconds=3600)
    assert granted.token.reveal()


async def grpc_server(addons: AddonFleet) -> Client:
    """Return a client with the rights of the gRPC server."""
    role = addons.members.plane.unique("grpc-server")
    await grant(addons.client, ObjectKey.cluster(role), rules_of(SERVER_RULES), GRPC_SERVER_USER)
    return addons.members.plane.fresh_client(GRPC_SERVER_USER)
