"""Maps roles to groups by the ConfigMap `aws-auth`; concurrent writers lose nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count
from random import Random

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict
from watchword.kube.request_sender import Backoff
from watchword.registration.aws_irsa.aws_auth_text import read_entries, with_entry, without_role
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.runtime.ensure import with_preconditions

AWS_AUTH = ObjectKey("kube-system", "aws-auth")
MAP_ROLES = "mapRoles"
CONTENTION = Backoff(first=0.02, limit=1.0)


class AwsAuthConfigMap(Struct, frozen=True):
    """The list of roles in `aws-auth`; writes only to the version that was read."""

    client: Client
    random: Random

    async def create(self, identity: ClusterIdentity) -> bool:
        """Add or repair the entry of the cluster's role; return whether anything was written."""
        return await self._edit(lambda text: with_entry(text, identity.config_map_entry))

    async def is_correct(self, identity: ClusterIdentity) -> bool:
        """Whether there is exactly the entry of the cluster for its role."""
        text = _map_roles(await self.client.find(CONFIG_MAPS, AWS_AUTH))
        found = [entry for entry in read_entries(text) if entry.get("rolearn") == identity.role.arn]
        return found == [dict(identity.config_map_entry)]

    async def delete(self, identity: ClusterIdentity) -> None:
        """Remove the entries of the cluster's role."""
        await self._edit(lambda text: without_role(text, identity.role.arn))

    async def _edit(self, change: Callable[[str], str]) -> bool:
        """Change the text; repeated until no other writer was faster. `AwsAuthUnreadable` when it cannot be read."""
        for failures in count(1):
            present = await self.client.find(CONFIG_MAPS, AWS_AUTH)
            text = _map_roles(present)
            changed = change(text)
            if changed == text:
                return False
            try:
                await self._write(present, changed)
            except (AlreadyExists, Conflict):
                await asyncio.sleep(CONTENTION.delay(failures, self.random))
            else:
                return True
        raise AssertionError("returned or raised above")

    async def _write(self, present: Object | None, text: str) -> None:
        data = {"data": {MAP_ROLES: text}}
        if present is None:
            await self.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(AWS_AUTH, **data))
        else:
            await self.client.patch(CONFIG_MAPS, AWS_AUTH, with_preconditions(present, data))


def _map_roles(present: Object | None) -> str:
    return str(((present or {}).get("data") or {}).get(MAP_ROLES) or "")
