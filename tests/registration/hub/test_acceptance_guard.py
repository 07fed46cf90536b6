"""Whether a server refuses clusters that would accept themselves."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import orjson
import pytest

from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.kube.client import Client
from watchword.registration.hub.cluster_acceptance import UNENFORCED_TTL, AcceptanceGuard
from watchword.registration.hub.installation import is_installed, policy_manifests
from watchword.testing.virtual_time import VirtualClock

FORBIDDEN = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
JSON = (("Content-Type", "application/json"),)


@dataclass
class Server:
    """Knows clusters; refuses protected fields once it enforces the policy."""

    enforces: bool = False
    asked: int = 0

    async def handle(self, request: Request) -> Response:
        self.asked += 1
        cluster = orjson.loads(request.body)
        claims = cluster["spec"].get("hubAcceptsClient") or cluster["metadata"].get("annotations")
        if claims and self.enforces:
            return Response(403, JSON, orjson.dumps(FORBIDDEN))
        return Response(201, JSON, request.body)


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
async def guard(server: Server) -> AcceptanceGuard:
    return AcceptanceGuard(Client.from_handler(server.handle), VirtualClock(asyncio.get_running_loop()))


async def test_server_that_enforces_the_policy_later_is_accepted_then(server: Server, guard: AcceptanceGuard) -> None:
    before = await guard.is_enforced()
    server.enforces = True
    await asyncio.sleep(UNENFORCED_TTL.total_seconds())

    assert (before, await guard.is_enforced()) == (False, True)


@pytest.mark.parametrize("enforces", [True, False])
async def test_many_clusters_at_once_cost_one_question(server: Server, guard: AcceptanceGuard, enforces: bool) -> None:  # noqa: FBT001 - a table
    server.enforces = enforces

    answers = await asyncio.gather(*(guard.is_enforced() for _ in range(50)))

    assert set(answers) == {enforces}
    assert server.asked <= 3


NEVER = {"matchConditions": [{"name": "never", "expression": "false"}]}
ELSEWHERE = {"matchResources": {"namespaceSelector": {"matchLabels": {"a": "b"}}}}


@pytest.mark.parametrize(
    ("of_policy", "of_binding", "installed"),
    [
        pytest.param({}, {}, True, id="as it was written"),
        pytest.param(NEVER, {}, False, id="policy for no request"),
        pytest.param({}, ELSEWHERE, False, id="binding for some requests"),
        pytest.param({}, {"validationActions": ["Audit"]}, False, id="binding that does not refuse"),
    ],
)
def test_policy_that_was_narrowed_is_not_installed(of_policy: Object, of_binding: Object, *, installed: bool) -> None:
    (_, policy), (_, binding) = policy_manifests()
    stored = [
        {**policy, "spec": {**policy["spec"], **of_policy}},
        {**binding, "spec": {**binding["spec"], **of_binding}},
    ]

    assert is_installed(stored) is installed


@pytest.mark.parametrize("narrowing", [{"resourceNames": ["edge-1"]}, {"scope": "Namespaced"}])
def test_policy_about_other_clusters_is_not_installed(narrowing: Object) -> None:
    (_, policy), (_, binding) = policy_manifests()
    (rule,) = policy["spec"]["matchConstraints"]["resourceRules"]
    spec = {**policy["spec"], "matchConstraints": {"resourceRules": [{**rule, **narrowing}]}}

    assert not is_installed([{**policy, "spec": spec}, binding])
