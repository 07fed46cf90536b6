"""Asks whether the identity on whose behalf a work is applied may do what the work does."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from watchword.api.expiring_map import ExpiringMap
from watchword.api.meta import ObjectKey, ObjectRef, mapping_at
from watchword.api.names import service_account_user
from watchword.kube.access_reviews import ResourceAccess, UserIdentity, may
from watchword.kube.client import Client

ALLOWED_SECONDS = 240.0
DENIED_SECONDS = 55.0  # a denied work is looked at again after a minute
READ_VERBS = ("get",)
WRITE_VERBS = ("get", "create", "update", "patch")
DELETE_VERBS = ("delete",)


class NotPermitted(Exception):
    """The executor of a work may not do what the work asks for; the message says what."""


def executor_of(work: Mapping[str, Any]) -> ObjectKey | None:
    """Return the ServiceAccount on whose behalf a work is applied, None when the agent acts on its own.

    Raises `NotPermitted` for a subject of any other kind: the agent's own rights must not stand in for it.
    """
    subject = mapping_at(work, "spec", "executor").get("subject")
    if not subject:
        return None
    account = mapping_at(subject, "serviceAccount")
    namespace, name = account.get("namespace"), account.get("name")
    if mapping_at(subject).get("type") != "ServiceAccount" or not namespace or not name:
        raise NotPermitted("the executor of the work is not a ServiceAccount with a namespace and a name")
    return ObjectKey(str(namespace), str(name))


def service_account_identity(account: ObjectKey) -> UserIdentity:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")
    return UserIdentity(service_account_user(account.namespace, account.name), groups=groups)


class ExecutorPermissions(Struct):
    """Answers are kept for a few minutes, refusals for one; a right that is withdrawn counts after that."""

    client: Client
    _reviews: ExpiringMap[tuple[str, ResourceAccess], bool] = field(default_factory=lambda: ExpiringMap(4096))

    async def require(self, account: ObjectKey | None, verbs: Sequence[str], target: ObjectRef) -> None:
        """Return when the executor may do all of this; raises `NotPermitted`, which names what it may not do."""
        if account is None:
            return
        who = service_account_identity(account)
        for verb in verbs:
            if not await self._is_allowed(who, ResourceAccess(verb, target.resource, target.key)):
                raise NotPermitted(f"the executor {account} may not {verb} {target}: bind a role that allows it")

    def impersonating(self, account: ObjectKey) -> Client:
        return self.client.impersonating(service_account_identity(account).username)

    async def _is_allowed(self, who: UserIdentity, access: ResourceAccess) -> bool:
        now, key = asyncio.get_running_loop().time(), (who.username, access)
        answer = self._reviews.get(key, now=now)
        if answer is None:
            answer = await may(self.client, who, access)
            self._reviews.put(key, answer, now=now, seconds=ALLOWED_SECONDS if answer else DENIED_SECONDS)
        return answer
