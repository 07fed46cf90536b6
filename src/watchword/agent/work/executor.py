"""Asks whether the identity on whose behalf a work is applied may do what the work does."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from watchword.agent.work.errors import NotPermitted
from watchword.agent.work.manifests import Target
from watchword.api.meta import ObjectKey
from watchword.api.names import service_account_user
from watchword.kube.client import Client
from watchword.kube.reviews import Access, Identity, may

ALLOWED_FOR = timedelta(minutes=4)
DENIED_FOR = timedelta(seconds=55)  # a denied work is looked at again after a minute
MOST_ANSWERS = 4096
RBAC_GROUP = "rbac.authorization.k8s.io"
READING = ("get",)
WRITING = ("get", "create", "update", "patch")
REMOVING = ("delete",)


def executor_of(work: Mapping[str, Any]) -> ObjectKey | None:
    """Return the ServiceAccount on whose behalf a work is applied, None when the agent acts on its own.

    Raises `NotPermitted` for a subject of any other kind: whoever was meant, it was not the agent.
    """
    executor = (work.get("spec") or {}).get("executor") or {}
    subject = executor.get("subject")
    if not subject:
        return None
    account = subject.get("serviceAccount") or {}
    namespace, name = account.get("namespace"), account.get("name")
    if subject.get("type") != "ServiceAccount" or not namespace or not name:
        raise NotPermitted("the executor of the work is not a ServiceAccount with a namespace and a name")
    return ObjectKey(str(namespace), str(name))


def identity_of(account: ObjectKey) -> Identity:
    """Return whom the server takes a ServiceAccount for."""
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{account.namespace}", "system:authenticated")
    return Identity(service_account_user(account.namespace, account.name), groups=groups)


def is_escalating(target: Target) -> bool:
    """Whether an object grants rights, so that the right to write it says too little."""
    return target.resource.group == RBAC_GROUP


@dataclass
class Permits:
    """Answers are kept for a few minutes, refusals for one; a right that is withdrawn counts after that."""

    client: Client
    _answers: dict[tuple[str, Access], tuple[bool, float]] = field(default_factory=dict, init=False)

    async def require(self, account: ObjectKey | None, verbs: Sequence[str], target: Target) -> None:
        """Return when the executor may do all of this; raises `NotPermitted`, which names what it may not do."""
        if account is None:
            return
        who = identity_of(account)
        for verb in verbs:
            if not await self._ask(who, Access(verb, target.resource, target.key)):
                raise NotPermitted(f"the executor {account} may not {verb} {target}: bind a role that allows it")

    def acting_as(self, account: ObjectKey) -> Client:
        """Return a client with which something is tried as the executor."""
        return self.client.acting_as(identity_of(account).username)

    async def _ask(self, who: Identity, access: Access) -> bool:
        now = asyncio.get_running_loop().time()
        answer, until = self._answers.get((who.username, access), (False, 0.0))
        if until > now:
            return answer
        answer = await may(self.client, who, access)
        if len(self._answers) >= MOST_ANSWERS:
            self._answers.clear()
        patience = ALLOWED_FOR if answer else DENIED_FOR
        self._answers[who.username, access] = answer, now + patience.total_seconds()
        return answer
