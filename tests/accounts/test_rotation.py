"""Renewal of tokens: at an instant of its own within the issued life, or not at all when rotation is off."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from msgspec.structs import replace
from tests.accounts.fleet import REPORTED, AccountsFleet, says
from tests.helpers.replaced_account import ReplacedAccountTransport

from watchword.accounts.agent.token_secrets import HeldToken, LocalAccount, decide_token, digest
from watchword.admin.errors import OperationRefused
from watchword.admin.rotate import CredentialRotator
from watchword.admin.wait import ObjectWaiter
from watchword.api.accounts import Account, AccountSecret
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import Annotation, ConditionType
from watchword.api.resources import MANAGED_SERVICE_ACCOUNTS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.credentials.evidence import TokenEvidence
from watchword.credentials.lifecycle import BoundToken, Keep, Obtain, Reason
from watchword.kube.access_reviews import who_am_i
from watchword.kube.errors import Unauthorized
from watchword.testing.builders import a_secret
from watchword.testing.eventually import eventually
from watchword.testing.virtual_time import EPOCH

CA = b"an authority"
LOCAL = LocalAccount(ObjectKey("addon", "robot"), "sa-1")
HOUR = timedelta(hours=1)
VIRTUAL = pytest.mark.planes("embedded")


def an_account(uid: str = "u1", **spec: object) -> Account:
    metadata = {"name": "robot", "namespace": "edge", "uid": uid, "creationTimestamp": rfc3339(EPOCH)}
    rotation = spec.pop("rotation", {"enabled": True, "validity": "1h"})
    obj: Object = {"apiVersion": MANAGED_SERVICE_ACCOUNTS.api_version, "metadata": metadata}
    return Account.read({**obj, "spec": {"rotation": rotation, **spec}})


def trust(*key_ids: str, ca: bytes = CA) -> tuple[bytes, TokenEvidence]:
    evidence = TokenEvidence()
    evidence.keys.observe_published(frozenset(key_ids), now=EPOCH)
    return ca, evidence


def held(account: Account, *, life: timedelta = HOUR) -> HeldToken:
    token = BoundToken(LOCAL.user, LOCAL.uid, EPOCH, EPOCH + life, key_id="key-1")
    return HeldToken("secret-1", token, account.request, digest(CA), account.rotation_request)


@pytest.mark.parametrize(
    ("passed", "renews"),
    [
        pytest.param(timedelta(0), False, id="just issued"),
        pytest.param(0.39 * HOUR, False, id="before the window"),
        pytest.param(0.81 * HOUR, True, id="after the window"),
        pytest.param(9 * HOUR, True, id="after an outage longer than its life"),
    ],
)
def test_token_is_renewed_within_its_issued_life(passed: timedelta, *, renews: bool) -> None:
    account = an_account()
    decision = decide_token(account, LOCAL, held(account), *trust("key-1"), now=EPOCH + passed)
    assert isinstance(decision, Obtain) == renews


def test_life_that_the_server_shortened_is_what_counts() -> None:
    account = an_account(rotation={"validity": "100h"})
    decision = decide_token(account, LOCAL, held(account, life=HOUR), *trust(), now=EPOCH)
    assert isinstance(decision, Keep)
    assert decision.until is not None
    assert 0.4 * HOUR <= decision.until - EPOCH <= 0.8 * HOUR


def test_tokens_that_were_issued_together_are_not_renewed_together() -> None:
    accounts = [an_account(f"uid-{number}") for number in range(100)]
    decisions = {decide_token(account, LOCAL, held(account), *trust(), now=EPOCH) for account in accounts}
    assert len(decisions) > 90


@pytest.mark.parametrize(
    ("account", "uid", "ca", "reason"),
    [
        pytest.param(an_account(audiences=["x"]), "sa-1", CA, Reason.REQUEST_CHANGED, id="audiences"),
        pytest.param(an_account(rotation={"validity": "2h"}), "sa-1", CA, Reason.REQUEST_CHANGED, id="validity"),
        pytest.param(an_account(), "sa-2", CA, Reason.SUBJECT_CHANGED, id="service account was made again"),
        pytest.param(an_account(), "sa-1", b"another", Reason.PLACE_CHANGED, id="authority"),
    ],
)
def test_other_facts_replace_the_token_at_once(account: Account, uid: str, ca: bytes, reason: Reason) -> None:
    local = replace(LOCAL, uid=uid)
    assert decide_token(account, local, held(an_account()), *trust(ca=ca), now=EPOCH) == Obtain(reason)


@pytest.mark.parametrize(
    ("key_ids", "passed", "renews"),
    [
        pytest.param({"key-2"}, timedelta(minutes=5), True, id="withdrawn"),
        pytest.param({"key-2"}, timedelta(minutes=4), False, id="issued while servers get another key"),
        pytest.param({"key-1", "key-2"}, timedelta(minutes=5), False, id="accepted beside the new one"),
        pytest.param(set(), timedelta(minutes=5), False, id="server publishes none"),
    ],
)
def test_token_of_a_withdrawn_key_is_replaced(key_ids: set[str], passed: timedelta, *, renews: bool) -> None:
    account = an_account()
    decision = decide_token(account, LOCAL, held(account), *trust(*key_ids), now=EPOCH + passed)
    assert isinstance(decision, Obtain) == renews


@VIRTUAL
async def test_token_is_replaced_when_the_cluster_withdraws_its_key(private_fleet: AccountsFleet) -> None:
    fleet = private_fleet
    member = await fleet.cluster(addon=False)
    await fleet.enable(member)
    await fleet.start_agent(member, local=fleet.plane.fresh_client())  # its own token would be withdrawn, too
    key = await fleet.declare(member.name, "robot", rotation={"validity": "24h"})
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.plane.rotate_signing_key(keep_old=False)
    with pytest.raises(Unauthorized):
        await who_am_i(fleet.as_token(old.token.reveal()))
    new = await fleet.secret(key, differs_from(old), within=600)
    await who_am_i(fleet.as_token(new.token.reveal()))


def test_rotation_that_is_off_never_renews() -> None:
    account = an_account(rotation={"enabled": False, "validity": "1h"})
    assert decide_token(account, LOCAL, held(account), *trust(), now=EPOCH + 9 * HOUR) == Keep(None)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.e30", "é.é.é"])
def test_content_that_is_no_token_is_not_read_as_one(token: str) -> None:
    assert HeldToken.read(AccountSecret.read(a_secret("robot", namespace="edge", data={"token": token}))) is None


def differs_from(other: AccountSecret) -> Callable[[AccountSecret], bool]:
    return lambda secret: secret.token != other.token


@VIRTUAL
async def test_token_is_renewed_again_and_again_before_it_expires(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", rotation={"validity": "1h"})
    await fleet.until(key)
    seen = await fleet.secret(key)
    for _ in range(5):
        previous = seen
        seen = await fleet.secret(key, differs_from(previous), within=3600)
        assert previous.expires_at is not None
        assert fleet.plane.clock.now() < previous.expires_at


@VIRTUAL
async def test_rotation_that_is_off_is_announced_and_ends(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", rotation={"enabled": False, "validity": "10m"})
    await fleet.until(key, ConditionType.ROTATION_SCHEDULED, "False", "RotationDisabled")
    secret = await fleet.secret(key)

    expired = says(REPORTED, "False", "TokenExpired")
    await eventually(fleet.client, MANAGED_SERVICE_ACCOUNTS, key, expired, within=900)
    assert (await fleet.secret(key)).token == secret.token
    await fleet.client.patch(MANAGED_SERVICE_ACCOUNTS, key, {"spec": {"rotation": {"enabled": True}}})
    await fleet.secret(key, lambda found: found.token != secret.token)


@VIRTUAL
async def test_agent_that_was_away_longer_than_the_token_lives_recovers(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", rotation={"validity": "10m"})
    await fleet.until(key)
    old = await fleet.secret(key)
    await fleet.stop_agent(member)

    ended = parse_rfc3339(old.annotations[Annotation.TOKEN_EXPIRY])
    assert ended is not None
    await fleet.pass_time(ended - fleet.plane.clock.now() + HOUR)
    await fleet.start_agent(member)
    new = await fleet.secret(key, lambda secret: secret.token != old.token)
    assert new.expires_at is not None
    assert new.expires_at > fleet.plane.clock.now()


@VIRTUAL
async def test_rotation_is_requested_ever_more_rarely_of_an_agent_that_is_away(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    await fleet.secret(key)
    await fleet.stop_agent(member)
    await fleet.client.patch(SECRETS, key, {"data": {"token": "c2NyaWJibGU="}})
    requests = set[str]()
    for _ in range(6 * 60):
        await fleet.pass_time(timedelta(minutes=1))
        found = await fleet.client.get(MANAGED_SERVICE_ACCOUNTS, key)
        requests.add(found["metadata"]["annotations"][Annotation.ROTATION_REQUEST])

    assert len(requests) <= 20


async def test_changed_authority_is_reported_with_a_token_that_fits(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot")
    await fleet.until(key)
    old = await fleet.secret(key)

    await fleet.stop_agent(member)
    member.ca = fleet.plane.ca_pem + b"\n" + fleet.plane.ca_pem
    await fleet.start_agent(member)
    new = await fleet.secret(key, lambda secret: secret.ca == member.ca)
    assert new.token != old.token


async def test_token_of_another_account_is_refused_where_the_server_ignores_the_uid(
    fleet: AccountsFleet,
) -> None:
    member = await fleet.cluster(addon=False)
    await fleet.enable(member)
    await fleet.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(fleet.local(member, "other")))
    local = fleet.client.over(ReplacedAccountTransport(fleet.client.transport, "other"))
    await fleet.start_agent(member, local=local)

    key = await fleet.declare(member.name, "robot")
    reported = await fleet.until(key, status="False", reason="TokenReportFailed")

    assert "was created again" in reported.message
    assert await fleet.client.find(SECRETS, key) is None


async def test_person_renews_the_token_of_an_account_on_all_its_clusters(fleet: AccountsFleet) -> None:
    name = fleet.plane.unique("fleet")
    namespace = await fleet.bound_namespace(name)
    members = [await fleet.cluster(labels={"set": name}) for _ in range(2)]
    keys = [ObjectKey(member.name, "robot") for member in members]
    await fleet.declare(namespace, "robot")
    before = {key: (await fleet.secret(key)).token for key in keys}
    for key in keys:
        await fleet.until(key)

    rotator = CredentialRotator(fleet.client, fleet.plane.clock)
    renewals = await rotator.account(ObjectKey(namespace, "robot"))
    for renewal in renewals:
        await rotator.request(renewal)
    waiter = ObjectWaiter(fleet.client, timedelta(minutes=1))
    said = [await rotator.wait(renewal, waiter) for renewal in renewals]

    assert ["credential JTI=" in each for each in said] == [True, True]
    over = ObjectWaiter(fleet.client, timedelta(0))
    assert await rotator.wait(renewals[0], over) == said[0]  # after the time limit it is looked once
    for key in keys:
        assert (await fleet.secret(key)).token != before[key]


async def test_account_without_a_cluster_has_nothing_to_renew(fleet: AccountsFleet) -> None:
    namespace = await fleet.bound_namespace(fleet.plane.unique("fleet"))
    await fleet.declare(namespace, "robot")

    with pytest.raises(OperationRefused, match="is on no cluster"):
        await CredentialRotator(fleet.client, fleet.plane.clock).account(ObjectKey(namespace, "robot"))
