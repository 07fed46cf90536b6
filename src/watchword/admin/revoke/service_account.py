"""Plans the revocation of a managed service account on every cluster."""

from __future__ import annotations

from functools import partial

from watchword.accounts.tokens import AccountToken
from watchword.admin.errors import NotFoundOnHub, OperationRefused
from watchword.admin.revoke.refusals import AbsenceProbe, RefusalProbe, RequestProbe
from watchword.admin.revoke.revocation import Revocation, RevocationContext, RevocationTarget, parse_key
from watchword.admin.service_accounts import ServiceAccountAdmin, connect_with
from watchword.api.accounts import resource_of
from watchword.api.meta import is_deleting, uid_of

FORM = "NAMESPACE/NAME"


async def plan_service_account(context: RevocationContext, name: str) -> Revocation:
    """Plan to delete an account: its tokens are revoked on every cluster that has it."""
    key, admin = parse_key(name, FORM), ServiceAccountAdmin(context.client)
    try:
        account = await admin.get(key)
    except OperationRefused as refusal:
        raise NotFoundOnHub(str(refusal)) from refusal
    clusters, tokens = await admin.clusters(key), await admin.tokens(key)

    async def act() -> bool:
        await admin.delete(key)
        return not is_deleting(account)

    everywhere = AbsenceProbe(f"account {key}", context.client, resource_of(account), key, uid_of(account))
    return Revocation(
        target=RevocationTarget("serviceaccount", str(key)),
        object=account,
        actions=(
            f"delete ManagedServiceAccount {key}",
            *(f"have the agent on {cluster} delete its ServiceAccount, and so its tokens" for cluster in clusters),
        ),
        act=act,
        probes=(everywhere, *(_probe(token) for token in tokens)),
    )


def _probe(token: AccountToken) -> RefusalProbe:
    return RequestProbe(f"token for {token.cluster}", partial(connect_with, token))
