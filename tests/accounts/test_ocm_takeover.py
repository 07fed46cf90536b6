"""Accounts that the add-on of Open Cluster Management made: they stay as they are when our agent takes over."""

from __future__ import annotations

from tests.accounts.fleet import AccountsFleet, Member

from watchword.api.meta import Object, ObjectKey, Resource, owner_reference, uid_of
from watchword.api.names import Label
from watchword.api.resources import OCM_MANAGED_SERVICE_ACCOUNTS, SECRETS, SERVICE_ACCOUNTS
from watchword.api.time import rfc3339
from watchword.kube.access_reviews import who_am_i
from watchword.kube.tokens import request_token
from watchword.testing.builders import a_secret, a_service_account
from watchword.testing.eventually import eventually

OCM = OCM_MANAGED_SERVICE_ACCOUNTS
OCM_ALPHA = Resource(OCM.group, "v1alpha1", OCM.plural, OCM.kind)
MARK = {Label.MANAGED_ACCOUNT: "true"}


async def as_ocm_left_it(fleet: AccountsFleet, member: Member) -> tuple[Object, Object]:
    """Make what an agent of Open Cluster Management makes; return the ServiceAccount and the Secret."""
    key = await fleet.declare(member.name, "robot", kind=OCM)
    account = await fleet.client.get(OCM, key)
    local = a_service_account("robot", namespace=member.namespace, labels=MARK)
    made = await fleet.client.create(SERVICE_ACCOUNTS, local)
    issued = await request_token(fleet.client, ObjectKey.of(made), expiration_seconds=3600)
    data = {"token": issued.token.reveal(), "ca.crt": "an authority"}
    secret = a_secret(
        "robot", namespace=member.name, data=data, labels=MARK, ownerReferences=[owner_reference(account)]
    )
    stored = await fleet.client.create(SECRETS, secret)
    reference = {"name": "robot", "lastRefreshTimestamp": rfc3339(fleet.plane.clock.now())}
    status = {"tokenSecretRef": reference, "expirationTimestamp": rfc3339(issued.expires_at)}
    await fleet.client.patch(OCM, key, {"status": status}, subresource="status")
    return made, stored


async def test_account_and_secret_are_adopted_and_the_old_token_stays_good(fleet: AccountsFleet) -> None:
    member = await fleet.cluster()
    await fleet.stop_agent(member)
    made, stored = await as_ocm_left_it(fleet, member)
    key = ObjectKey(member.name, "robot")
    old = (await fleet.secret(key)).token.reveal()

    await fleet.start_agent(member)
    new = await fleet.secret(key, lambda secret: secret.token.reveal() != old)
    assert uid_of(new.object) == uid_of(stored)
    assert uid_of(await fleet.client.get(SERVICE_ACCOUNTS, ObjectKey.of(made))) == uid_of(made)
    assert (await who_am_i(fleet.as_token(old))).username.endswith(":robot")


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
