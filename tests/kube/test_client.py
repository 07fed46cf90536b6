"""The verbs over a scripted server: what is sent, what is tried again, what is raised."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.http import Request, Response
from watchword.api.meta import ObjectKey
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, DEPLOYMENTS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client, PatchType
from watchword.kube.errors import (
    AlreadyExists,
    ApiStatusError,
    BadRequest,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    MalformedResponse,
    MethodNotAllowed,
    NotFound,
    ServerError,
    TimedOut,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    UnsupportedMediaType,
)
from watchword.kube.request_sender import RetryPolicy, decode
from watchword.kube.tokens import IssuedToken, read_published_key_ids, request_token
from watchword.runtime.api_errors import is_kind_missing

KEY = ObjectKey("n", "x")
Answer = Response | Exception
TOKEN = {"status": {"token": "t", "expirationTimestamp": "2030-01-01T00:00:00Z"}}


def ok(body: Any = None) -> Response:
    return Response(200, body=orjson.dumps({} if body is None else body))


def status(code: int, reason: str = "", **headers: str) -> Response:
    body = {"kind": "Status", "code": code, "reason": reason, "message": f"said {code}"}
    return Response(code, tuple((k.replace("_", "-"), v) for k, v in headers.items()), orjson.dumps(body))


class Server:
    """Responds from a list and records the requests."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.asked: list[Request] = []

    async def __call__(self, request: Request) -> Response:
        self.asked.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, **options: Any) -> Client:
        return Client.from_handler(self, random=Random(1), **options)

    def body(self) -> Any:
        return orjson.loads(self.asked[-1].body)


async def test_each_verb_sends_what_kubernetes_expects() -> None:
    server = Server(*[ok() for _ in range(5)])
    client = server.client()
    secret = SECRETS.manifest(KEY)

    await client.create(SECRETS, secret)
    await client.update(SECRETS, secret)
    await client.patch(SECRETS, KEY, [{"op": "test"}], kind=PatchType.JSON)
    await client.update(CERTIFICATE_SIGNING_REQUESTS, {"metadata": {"name": "c"}}, subresource="approval")
    await client.patch(DEPLOYMENTS, KEY, {"spec": {"replicas": 2}}, subresource="scale")

    assert [(r.method, r.path) for r in server.asked] == [
        ("POST", "/api/v1/namespaces/n/secrets"),
        ("PUT", "/api/v1/namespaces/n/secrets/x"),
        ("PATCH", "/api/v1/namespaces/n/secrets/x"),
        ("PUT", "/apis/certificates.k8s.io/v1/certificatesigningrequests/c/approval"),
        ("PATCH", "/apis/apps/v1/namespaces/n/deployments/x/scale"),
    ]


async def test_apply_names_its_manager_and_forces_only_on_request() -> None:
    server = Server(ok(), ok())

    await server.client().apply(SECRETS, SECRETS.manifest(KEY), manager="me")
    await server.client().apply(SECRETS, SECRETS.manifest(KEY), manager="me", force=True, dry_run=True)

    assert [dict(r.query) for r in server.asked] == [
        {"fieldManager": "me", "force": "false"},
        {"fieldManager": "me", "force": "true", "dryRun": "All"},
    ]
    assert server.asked[0].header("Content-Type") == "application/apply-patch+yaml"


async def test_delete_carries_its_preconditions() -> None:
    server = Server(ok())

    await server.client().delete(SECRETS, KEY, uid="u", resource_version="7", propagation="Foreground")

    assert server.body()["preconditions"] == {"uid": "u", "resourceVersion": "7"}
    assert server.body()["propagationPolicy"] == "Foreground"


async def test_a_missing_object_is_none_to_find_and_an_error_to_get() -> None:
    server = Server(status(404), status(404))

    assert await server.client().find(SECRETS, KEY) is None
    with pytest.raises(NotFound, match="said 404"):
        await server.client().get(SECRETS, KEY)


@pytest.mark.parametrize(
    "key",
    [
        pytest.param(ObjectKey("n", ""), id="no name"),
        pytest.param(ObjectKey("n", ".."), id="the folder above"),
        pytest.param(ObjectKey(".", "x"), id="namespace is a folder"),
    ],
)
async def test_object_that_cannot_exist_is_missing_and_its_kind_is_not(key: ObjectKey) -> None:
    server = Server()

    with pytest.raises(NotFound, match="no object can have this name") as refusal:
        await server.client().get(SECRETS, key)

    assert not is_kind_missing(refusal.value)


async def test_namespace_that_cannot_exist_is_missing_to_every_verb() -> None:
    client = Server().client()

    with pytest.raises(NotFound, match="no object can have this name"):
        await client.list(SECRETS, namespace="..")
    with pytest.raises(NotFound, match="no object can have this name"):
        await client.create(SECRETS, SECRETS.manifest(ObjectKey("..", "x")))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        pytest.param(status(400), BadRequest, id="400"),
        pytest.param(status(401), Unauthorized, id="401"),
        pytest.param(status(403), Forbidden, id="403"),
        pytest.param(status(405), MethodNotAllowed, id="405"),
        pytest.param(status(409), Conflict, id="409"),
        pytest.param(status(409, "AlreadyExists"), AlreadyExists, id="409 because it exists"),
        pytest.param(status(410), Gone, id="410"),
        pytest.param(status(413), ApiStatusError, id="413"),
        pytest.param(status(415), UnsupportedMediaType, id="415"),
        pytest.param(status(422), Invalid, id="422"),
        pytest.param(status(418), ApiStatusError, id="a code we do not know"),
        pytest.param(status(500), ServerError, id="500"),
    ],
)
async def test_a_refusal_becomes_a_typed_error(answer: Response, error: type[ApiStatusError]) -> None:
    with pytest.raises(error) as caught:
        await Server(answer).client().create(SECRETS, SECRETS.manifest(KEY))
    assert type(caught.value) is error


def page(version: str, names: str, token: str = "") -> Response:
    items = [{"metadata": {"name": name}} for name in names]
    return ok({"metadata": {"resourceVersion": version, "continue": token}, "items": items})


async def test_list_is_read_page_by_page_and_every_item_has_its_kind() -> None:
    server = Server(page("5", "ab", "t"), page("5", "c"))

    found = await server.client().list(SECRETS, limit=2)

    assert [item["metadata"]["name"] for item in found.items] == ["a", "b", "c"]
    assert {(item["apiVersion"], item["kind"]) for item in found.items} == {("v1", "Secret")}
    assert found.resource_version == "5"
    assert server.asked[1].parameter("continue") == "t"


async def test_one_page_of_a_list_is_held_undecoded_at_a_time() -> None:
    padding = " " * 1_000_000
    pages = iter(range(50))

    async def answer(_: Request) -> Response:
        number = next(pages)
        token = "" if number == 49 else "more"
        item = f'{{"metadata":{{"name":"x{number}"}}{padding}}}'
        return Response(200, body=f'{{"metadata":{{"continue":"{token}"}},"items":[{item}]}}'.encode())

    tracemalloc.start()
    try:
        found = await Client.from_handler(answer).list(SECRETS, limit=1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found.items) == 50
    assert peak < 25_000_000


async def test_a_list_whose_revision_expires_starts_again() -> None:
    server = Server(page("5", "ab", "t"), status(410), page("9", "xy", "u"), page("9", "z"))

    found = await server.client().list_raw(SECRETS, limit=2, reduce=bytes)

    assert [orjson.loads(item)["metadata"]["name"] for item in found.items] == ["x", "y", "z"]
    assert found.resource_version == "9"


async def test_a_list_that_never_fits_its_window_is_read_in_one_piece() -> None:
    server = Server(*[page("5", "a", "t"), status(410)] * 3, page("9", "ab"))

    assert len((await server.client().list(SECRETS)).items) == 2
    assert server.asked[-1].parameter("limit") == ""


async def test_a_list_that_expires_at_a_server_that_pages_unasked_is_refused() -> None:
    server = Server(*[page("5", "a", "t"), status(410)] * 4)

    with pytest.raises(Gone):
        await server.client().list(SECRETS)


@pytest.mark.parametrize(
    "item",
    [
        pytest.param(None, id="null"),
        pytest.param(5, id="number"),
        pytest.param("x", id="text"),
        pytest.param([], id="list"),
        pytest.param({}, id="no metadata"),
        pytest.param({"metadata": None}, id="metadata is null"),
        pytest.param({"metadata": ["name"]}, id="metadata is a list"),
        pytest.param({"metadata": {"namespace": "n"}}, id="no name"),
        pytest.param({"metadata": {"name": 5}}, id="name is a number"),
    ],
)
async def test_list_with_an_item_that_is_no_named_object_is_malformed(item: Any) -> None:
    server = Server(ok({"metadata": {}, "items": [{"metadata": {"name": "a"}}, item]}))

    with pytest.raises(MalformedResponse, match=r"no object|no name"):
        await server.client().list(SECRETS)


REFUSED = Unreachable("refused", maybe_processed=False)
LOST = Unreachable("lost")


@pytest.mark.parametrize(
    ("call", "first", "tries"),
    [
        pytest.param("get", LOST, 2, id="a read whose answer was lost is repeated"),
        pytest.param("apply", LOST, 2, id="so is an apply"),
        pytest.param("delete", LOST, 2, id="so is a delete"),
        pytest.param("create", LOST, 1, id="a create may have happened: never repeated"),
        pytest.param("update", LOST, 1, id="so may an update"),
        pytest.param("create", REFUSED, 2, id="a create that never left is repeated"),
        pytest.param("create", status(429), 2, id="a create that was turned away is repeated"),
        pytest.param("create", status(503, Retry_After="1"), 2, id="so is one told to come back"),
        pytest.param("create", status(503), 1, id="a create in the middle of an outage is not"),
        pytest.param("get", status(503), 2, id="a read in the middle of an outage is"),
        pytest.param("get", status(504), 2, id="so is one that a gateway gave up"),
        pytest.param("get", status(500), 1, id="an internal error is not passing"),
        pytest.param("get", status(409), 1, id="a conflict is an answer"),
    ],
)
async def test_what_is_worth_trying_again(call: str, first: Answer, tries: int) -> None:
    server = Server(first, ok())
    client = server.client()
    calls: dict[str, Callable[[], Any]] = {
        "get": lambda: client.get(SECRETS, KEY),
        "apply": lambda: client.apply(SECRETS, SECRETS.manifest(KEY)),
        "delete": lambda: client.delete(SECRETS, KEY),
        "create": lambda: client.create(SECRETS, SECRETS.manifest(KEY)),
        "update": lambda: client.update(SECRETS, SECRETS.manifest(KEY)),
    }

    await asyncio.gather(calls[call](), return_exceptions=True)

    assert len(server.asked) == tries


async def test_the_server_decides_how_long_to_wait() -> None:
    start = asyncio.get_running_loop().time()

    await Server(status(429, Retry_After="7"), ok()).client().get(SECRETS, KEY)

    assert 7 < asyncio.get_running_loop().time() - start < 8


async def test_a_wait_beyond_the_deadline_is_left_to_the_caller() -> None:
    with pytest.raises(TooManyRequests) as caught:
        await Server(status(429, Retry_After="600")).client().get(SECRETS, KEY)
    assert caught.value.retry_after == 600


async def test_server_that_asks_for_days_of_silence_is_asked_again_after_minutes() -> None:
    client = Server(status(429, Retry_After="999999"), ok()).client()
    with pytest.raises(TooManyRequests):
        await client.get(SECRETS, KEY)

    await asyncio.sleep(600)

    assert await client.get(SECRETS, KEY) == {}


async def test_busy_signer_gets_few_requests_however_many_credentials_are_due() -> None:
    asked = list[float]()
    busy = True

    async def sign(request: Request) -> Response:
        asked.append(asyncio.get_running_loop().time())
        return status(429, Retry_After="1") if busy and request.path.endswith("/token") else ok(TOKEN)

    client = Client.from_handler(sign, random=Random(1))

    async def renew(name: str) -> IssuedToken:
        while True:
            try:
                return await request_token(client, ObjectKey("n", name), expiration_seconds=600)
            except TooManyRequests as refused:  # as a controller: the key comes back then
                await asyncio.sleep(refused.retry_after or 1)

    renewals = [asyncio.create_task(renew(f"credential-{number}")) for number in range(14)]
    await asyncio.sleep(600)
    last_minute = sum(when > asyncio.get_running_loop().time() - 60 for when in asked)
    await client.get(SECRETS, KEY)  # other requests are not held back
    busy = False
    await asyncio.wait_for(asyncio.gather(*renewals), timeout=120)

    assert len(asked) < 14 + 40 + 1 + 14
    assert last_minute <= 3


async def test_server_that_never_responds_takes_bounded_time() -> None:
    async def hang(_: Request) -> Response:
        return await asyncio.Future()

    start = asyncio.get_running_loop().time()
    with pytest.raises(TimedOut, match="no response within"):
        await Client.from_handler(hang, retry=RetryPolicy(attempt_timeout=5, deadline=12)).get(SECRETS, KEY)
    assert asyncio.get_running_loop().time() - start <= 12


async def test_requests_in_flight_are_bounded() -> None:
    under_way = most = 0

    async def slow(_: Request) -> Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(1)
        under_way -= 1
        return ok()

    client = Client.from_handler(slow, max_in_flight=3)
    await asyncio.gather(*(client.get(SECRETS, KEY) for _ in range(10)))

    assert most == 3


async def test_an_issued_token_is_hidden_and_dated() -> None:
    server = Server(ok({"status": {"token": "sesame", "expirationTimestamp": "2030-01-01T00:00:00Z"}}))

    issued = await request_token(server.client(), KEY, expiration_seconds=600, audiences=["a"], uid="u")

    assert "sesame" not in repr(issued)
    assert (issued.token.reveal(), issued.expires_at.year) == ("sesame", 2030)
    assert server.asked[0].path == "/api/v1/namespaces/n/serviceaccounts/x/token"
    assert server.body()["metadata"] == {"uid": "u"}


async def test_a_token_request_granted_without_a_token_is_malformed() -> None:
    with pytest.raises(MalformedResponse, match="without a token"):
        await request_token(Server(ok({"status": {}})).client(), KEY, expiration_seconds=600)


async def test_token_of_an_account_that_cannot_exist_is_not_requested() -> None:
    with pytest.raises(NotFound, match="no object can have this name"):
        await request_token(Server().client(), ObjectKey("n", ".."), expiration_seconds=600)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        pytest.param({"keys": [{"kid": "a"}, {"kid": "b"}, {"kty": "EC"}]}, {"a", "b"}, id="keys"),
        pytest.param({"keys": [{"kid": "a"}, None, 5, "kid", ["kid"]]}, {"a"}, id="what is no key is left out"),
        pytest.param({"keys": {"kid": "a"}}, set(), id="no list"),
        pytest.param(["keys"], set(), id="no key set"),
    ],
)
async def test_read_published_key_ids(document: Any, found: set[str]) -> None:
    assert await read_published_key_ids(Server(ok(document)).client()) == found


async def test_an_in_process_server_sees_the_identity_and_errors_never_show_it() -> None:
    server = Server(status(403))
    client = server.client(authorization=Sensitive("Bearer sesame"))

    with pytest.raises(Forbidden) as caught:
        await client.get(SECRETS, KEY)

    assert server.asked[0].header("Authorization") == "Bearer sesame"
    assert "sesame" not in repr(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda x: st.lists(x) | st.dictionaries(st.text(), x),
)
STATUS = st.fixed_dictionaries({}, optional=dict.fromkeys(("kind", "reason", "message", "details", "code"), JSON))


@settings(max_examples=60)
@given(st.integers(100, 599), st.binary() | (JSON | STATUS).map(orjson.dumps), st.text(max_size=20))
def test_no_response_raises_anything_but_our_errors(code: int, body: bytes, header: str) -> None:
    response = Response(code, (("Retry-After", header), ("Content-Type", header)), body)
    with suppress(KubeError):
        assert isinstance(decode(response), dict)


async def test_refused_watch_with_an_endless_body_takes_bounded_time() -> None:
    async def endless() -> AsyncIterator[bytes]:
        yield b'{"kind":'
        await asyncio.Event().wait()

    async def refuse(_: Request) -> Response:
        return Response(403, stream=endless())

    with pytest.raises(TimedOut):
        async with Client.from_handler(refuse).open("/api/v1/secrets"):
            pytest.fail("a refusal was taken for a watch")
