"""Accounts that the add-on of Open Cluster Management made: they stay as they are when ours takes over."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from random import Random
from typing import Any

import orjson
import pytest
from tests.accounts.fleet import AccountsFleet, Member

from watchword.accounts.agent.process import KINDS_EVERY, find_served_kinds
from watchword.api.accounts import ADDON_NAME, AccountSecret
from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, finalizers_of, owner_reference, uid_of
from watchword.api.names import Annotation, Label, addon_group
from watchword.api.resources import (
    MANAGED_SERVICE_ACCOUNTS,
    OCM_MANAGED_SERVICE_ACCOUNTS,
    RBAC_GROUP,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.time import rfc3339
from watchword.discovery.discover import ONE_TRY
from watchword.kube.access_reviews import who_am_i
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.tokens import IssuedToken, request_token
from watchword.testing.builders import a_secret, a_service_account
from watchword.testing.eventually import eventually, is_gone

OCM = OCM_MANAGED_SERVICE_ACCOUNTS
OCM_ALPHA = Resource(OCM.group, "v1alpha1", OCM.plural, OCM.kind)
MARK = {Label.MANAGED_ACCOUNT: "true"}
GRANTED_BY_OCM = (
    {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch", "create", "update"]},
    {"apiGroups": [OCM.group], "resources": [OCM.plural], "verbs": ["get", "list", "watch"]},
    {"apiGroups": [OCM.group], "resources": [f"{OCM.plural}/status"], "verbs": ["get", "update", "patch"]},
)
"""What a manager of Open Cluster Management allows the agent in the namespace of its cluster."""

GRANTED_ON_CLUSTER = (
    {
        "apiGroups": [""],
        "resources": ["serviceaccounts", "serviceaccounts/token"],
        "verbs": ["get", "watch", "list", "create", "delete"],
    },
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update", "patch"]},
)
"""What its work allows the agent in its own namespace on the cluster."""


async def as_ocm_left_it(fleet: AccountsFleet, member: Member, ca: bytes = b"", **spec: Any) -> tuple[Object, Object]:
    """Make what an agent of Open Cluster Management makes; return the ServiceAccount and the Secret."""
    key = await fleet.declare(member.name, "robot", kind=OCM, **spec)
    account = await fleet.client.get(OCM, key)
    local = a_service_account("robot", namespace=member.namespace, labels=MARK)
    made = await fleet.client.create(SERVICE_ACCOUNTS, local)
    issued = await request_token(fleet.client, ObjectKey.of(made), expiration_seconds=3600)
    data = {"token": issued.token.reveal(), "ca.crt": (ca or member.ca).decode()}
    secret = a_secret(
        "robot", namespace=member.name, data=data, labels=MARK, ownerReferences=[owner_reference(account)]
    )
    stored = await fleet.client.create(SECRETS, secret)
    await report(fleet, key, issued)
    return made, stored


async def report(fleet: AccountsFleet, key: ObjectKey, issued: IssuedToken) -> None:
    """Write the status that an agent of Open Cluster Management writes."""
    reference = {"name": key.name, "lastRefreshTimestamp": rfc3339(fleet.plane.clock.now())}
    status = {"tokenSecretRef": reference, "expirationTimestamp": rfc3339(issued.expires_at)}
    await fleet.client.patch(OCM, key, {"status": status}, subresource="status")


async def recorded(fleet: AccountsFleet, key: ObjectKey) -> AccountSecret:
    """Wait until our agent has recorded what the Secret holds."""
    return await fleet.secret(key, lambda secret: secret.is_intact)


async def held_by_hub(fleet: AccountsFleet, key: ObjectKey) -> None:
    """Wait until the hub side has seen an account."""
    await eventually(fleet.client, OCM, key, lambda obj: obj is not None and bool(finalizers_of(obj)))


async def test_token_of_an_ocm_agent_is_kept_when_our_agent_takes_over(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    made, stored = await as_ocm_left_it(fleet, member)

    await fleet.start_agent(member)

    kept = await recorded(fleet, ObjectKey(member.name, "robot"))
    assert kept.token == AccountSecret.read(stored).token
    assert uid_of(kept.object) == uid_of(stored)
    assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, ObjectKey.of(made))) == uid_of(made)
    account = await fleet.client.get(OCM, ObjectKey(member.name, "robot"))
    assert account["status"]["expirationTimestamp"] == kept.annotations[Annotation.TOKEN_EXPIRY]


async def test_token_with_another_authority_is_replaced_and_the_old_one_stays_good(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    made, stored = await as_ocm_left_it(fleet, member, b"an authority")
    old = AccountSecret.read(stored).token.reveal()

    await fleet.start_agent(member)

    new = await recorded(fleet, ObjectKey(member.name, "robot"))
    assert new.token.reveal() != old
    assert uid_of(new.object) == uid_of(stored)
    assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, ObjectKey.of(made))) == uid_of(made)
    assert (await who_am_i(fleet.as_token(old))).username.endswith(":robot")


async def test_token_that_lives_longer_than_the_account_asks_for_is_replaced(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    _, stored = await as_ocm_left_it(fleet, member, rotation={"validity": "30m"})

    await fleet.start_agent(member)

    new = await recorded(fleet, ObjectKey(member.name, "robot"))
    assert new.token != AccountSecret.read(stored).token


async def test_token_that_the_cluster_refuses_is_not_kept(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    _, stored = await as_ocm_left_it(fleet, member)
    head, claims, signature = AccountSecret.read(stored).token.reveal().split(".")
    forged = f"{head}.{claims}.{signature[::-1]}"
    key = ObjectKey(member.name, "robot")
    await fleet.client.patch(SECRETS, key, {"data": {"token": base64.b64encode(forged.encode()).decode()}})

    await fleet.start_agent(member)

    new = await recorded(fleet, key)
    assert new.token.reveal() != forged
    assert (await who_am_i(fleet.as_token(new.token.reveal()))).username.endswith(":robot")


async def test_token_of_another_service_account_is_not_kept(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    await as_ocm_left_it(fleet, member)
    other = await fleet.client.create(SERVICE_ACCOUNTS, a_service_account("other", namespace=member.namespace))
    issued = await request_token(fleet.client, ObjectKey.of(other), expiration_seconds=3600)
    key = ObjectKey(member.name, "robot")
    token = base64.b64encode(issued.token.reveal().encode()).decode()
    await fleet.client.patch(SECRETS, key, {"data": {"token": token}})

    await fleet.start_agent(member)

    new = await recorded(fleet, key)
    assert (await who_am_i(fleet.as_token(new.token.reveal()))).username.endswith(":robot")


async def test_token_that_an_ocm_agent_renewed_in_between_is_kept(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = await fleet.declare(member.name, "robot", kind=OCM)
    await fleet.until(key, kind=OCM)
    first = await recorded(fleet, key)
    await fleet.stop_agent(member)
    await fleet.stop_manager()
    issued = await request_token(fleet.client, fleet.local(member, "robot"), expiration_seconds=7200)
    token = base64.b64encode(issued.token.reveal().encode()).decode()
    await fleet.client.patch(SECRETS, key, {"data": {"token": token}})
    await report(fleet, key, issued)

    fleet.start_manager()
    await held_by_hub(fleet, await fleet.declare(member.name, "later", kind=OCM))
    await fleet.start_agent(member)

    kept = await recorded(fleet, key)
    assert kept.token == issued.token
    assert kept.expires_at != first.expires_at
    assert Annotation.ROTATION_REQUEST not in annotations_of(await fleet.client.get(OCM, key))


async def test_account_of_the_older_version_is_served(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    key = ObjectKey(member.name, "robot")
    await fleet.client.create(OCM_ALPHA, OCM_ALPHA.manifest(key, spec={"rotation": {}}))

    await fleet.until(key, kind=OCM)
    found = await fleet.client.get(OCM_ALPHA, key)
    assert found["spec"]["rotation"] == {"enabled": True, "validity": "8640h0m0s"}


async def test_secret_of_an_ocm_agent_is_left_alone_by_the_hub_side(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    await as_ocm_left_it(fleet, member)
    later = await fleet.cluster()
    await fleet.until(await fleet.declare(later.name, "other"))

    account = await eventually(fleet.client, OCM, ObjectKey(member.name, "robot"))
    assert "watchword.dev/rotation-request" not in (account["metadata"].get("annotations") or {})


async def test_hub_releases_a_deleted_account_that_an_ocm_agent_keeps(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    await as_ocm_left_it(fleet, member)
    key = ObjectKey(member.name, "robot")
    await held_by_hub(fleet, key)

    await fleet.client.delete(OCM, key)

    await eventually(fleet.client, OCM, key, is_gone)
    await eventually(fleet.client, SECRETS, key, is_gone)


async def managed_by_ocm(fleet: AccountsFleet) -> Member:
    """Return a cluster on which our agent has the rights that Open Cluster Management's manager gives its own."""
    member = await fleet.cluster(addon=False)
    group = {"apiGroup": RBAC_GROUP, "kind": "Group", "name": addon_group(member.name, ADDON_NAME)}
    await allow(fleet, ObjectKey(member.name, "managed-serviceaccount-addon-agent"), GRANTED_BY_OCM, group)
    account = a_service_account(ADDON_NAME, namespace=member.namespace)
    await fleet.client.create(SERVICE_ACCOUNTS, account)
    agent = {"kind": "ServiceAccount", "namespace": member.namespace, "name": ADDON_NAME}
    await allow(fleet, ObjectKey(member.namespace, "addon-agent"), GRANTED_ON_CLUSTER, agent)
    return member


async def allow(fleet: AccountsFleet, key: ObjectKey, rules: Sequence[Object], subject: Object) -> None:
    """Bind a new Role of this name."""
    await fleet.client.create(ROLES, ROLES.manifest(key, rules=list(rules)))
    reference = {"apiGroup": RBAC_GROUP, "kind": "Role", "name": key.name}
    await fleet.client.create(ROLE_BINDINGS, ROLE_BINDINGS.manifest(key, roleRef=reference, subjects=[subject]))


async def test_account_of_an_ocm_agent_is_served_with_rights_that_allow_no_change_of_it(fleet: AccountsFleet) -> None:
    await fleet.stop_manager()
    member = await managed_by_ocm(fleet)
    made, stored = await as_ocm_left_it(fleet, member)

    await fleet.start_agent(member)

    kept = await recorded(fleet, ObjectKey(member.name, "robot"))
    assert kept.token == AccountSecret.read(stored).token
    await fleet.until(kept.key, kind=OCM)
    assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, ObjectKey.of(made))) == uid_of(made)


async def test_our_agent_renews_with_the_rights_that_an_ocm_manager_grants(fleet: AccountsFleet) -> None:
    await fleet.stop_manager()
    member = await managed_by_ocm(fleet)
    await fleet.start_agent(member)
    key = await fleet.declare(member.name, "robot", kind=OCM)
    await fleet.until(key, kind=OCM)
    first = await recorded(fleet, key)

    await fleet.client.delete(SERVICE_ACCOUNTS, fleet.local(member, "robot"))

    second = await fleet.secret(key, lambda secret: secret.token != first.token)
    assert uid_of(second.object) == uid_of(first.object)
    assert (await who_am_i(fleet.as_token(second.token.reveal()))).username.endswith(":robot")


@pytest.mark.planes("embedded")
async def test_group_that_the_hub_serves_later_is_served_without_a_restart(fleet: AccountsFleet) -> None:
    member = await managed_by_ocm(fleet)
    await fleet.start_agent(member)
    await fleet.until(await fleet.declare(member.name, "first", kind=OCM), kind=OCM)
    declared = await fleet.declare(member.name, "second")

    await fleet.enable(member)

    await fleet.secret(declared, within=2 * KINDS_EVERY)
    await fleet.until(declared)
    await fleet.until(ObjectKey(member.name, "first"), kind=OCM)


async def test_group_that_the_hub_cannot_serve_for_a_moment_is_waited_for() -> None:
    asked: list[str] = []

    async def handle(request: Request) -> Response:
        asked.append(request.path)
        starts = OCM.group in request.path and len(asked) == 2
        status = {"kind": "Status", "message": "storage is (re)initializing", "code": 500, "reason": "InternalError"}
        return Response(500, body=orjson.dumps(status)) if starts else Response(200, body=b"{}")

    client = Client.from_handler(handle, retry=ONE_TRY)

    assert await find_served_kinds(client, "edge", Backoff(), Random(1)) == (MANAGED_SERVICE_ACCOUNTS, OCM)
