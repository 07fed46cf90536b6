"""The kinds of credentials that can be revoked; a new kind is a module and a row here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from msgspec import Struct

from watchword.admin.revoke import addon, pull_secret, service_account
from watchword.admin.revoke.addon import plan_addon
from watchword.admin.revoke.cluster import plan_cluster
from watchword.admin.revoke.join_token import plan_join_token
from watchword.admin.revoke.pull_secret import plan_pull_secret
from watchword.admin.revoke.revocation import Revocation, RevocationContext, RevocationTarget
from watchword.admin.revoke.service_account import plan_service_account

Planner: TypeAlias = Callable[[RevocationContext, str], Awaitable[Revocation]]
"""Plans a revocation without changing anything; raises `AdminError` when the name stands for nothing."""


class RevocableKind(Struct, frozen=True):
    """One kind of credential: how it is named, and how it is revoked."""

    name: str
    form: str  # of a name on the command line
    summary: str
    plan: Planner


KINDS = (
    RevocableKind("cluster", "NAME", "Take the rights from clusters and from their add-ons.", plan_cluster),
    RevocableKind("addon", addon.FORM, "Disable add-ons and remove their rights at once.", plan_addon),
    RevocableKind(
        "serviceaccount",
        service_account.FORM,
        "Delete managed service accounts, and their tokens on every cluster.",
        plan_service_account,
    ),
    RevocableKind(
        "pull-secret",
        pull_secret.FORM,
        "Delete the image pull secrets of ServiceAccounts; new ones are issued.",
        plan_pull_secret,
    ),
    RevocableKind("token", "ID", "Delete bootstrap tokens, by id or whole.", plan_join_token),
)

_BY_NAME = {kind.name: kind for kind in KINDS}


async def plan_revocation(context: RevocationContext, target: RevocationTarget) -> Revocation:
    """Plan the revocation of one credential; raises `AdminError` when there is none of that name."""
    return await _BY_NAME[target.kind].plan(context, target.name)
