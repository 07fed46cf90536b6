"""Maps roles to groups by EKS access entries, where the hub's authentication mode has them."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from msgspec import Struct

from watchword.registration.aws_irsa.arn import EksClusterArn
from watchword.registration.aws_irsa.aws_api import AwsApi, find
from watchword.registration.aws_irsa.errors import AwsRefused, ForeignRole
from watchword.registration.aws_irsa.iam import settled
from watchword.registration.aws_irsa.identity import ClusterIdentity

EXISTS = "ResourceInUseException"
UNKNOWN_PRINCIPAL = frozenset({"InvalidParameterException"})
"""What EKS says of a role that IAM has just created."""

STANDARD = "STANDARD"
MODES_WITH_ENTRIES = frozenset({"API", "API_AND_CONFIG_MAP"})


class AccessEntries(Struct, frozen=True):
    """The access entries of one hub."""

    api: AwsApi
    hub: EksClusterArn
    random: Random

    async def are_available(self) -> bool:
        """Whether the hub is an EKS cluster whose authentication mode has access entries."""
        found = await find(self.api, "eks", "describe_cluster", name=self.hub.name)
        config = ((found or {}).get("cluster") or {}).get("accessConfig") or {}
        return config.get("authenticationMode") in MODES_WITH_ENTRIES

    async def create(self, identity: ClusterIdentity) -> bool:
        """Create the entry, or repair the one of this role; return whether anything was written."""
        try:
            await settled(lambda: self._create(identity), self.random, unsettled_codes=UNKNOWN_PRINCIPAL)
        except AwsRefused as refusal:
            if refusal.code != EXISTS:
                raise
            return await self.repair(identity)
        return True

    async def repair(self, identity: ClusterIdentity) -> bool:
        """Make the entry map to the cluster's group; return whether anything was written."""
        found = await self._find(identity)
        if found is None:
            await settled(lambda: self._create(identity), self.random, unsettled_codes=UNKNOWN_PRINCIPAL)
            return True
        if found.get("type", STANDARD) != STANDARD:
            raise ForeignRole(
                f"the access entry of role {identity.role.arn} has type {found['type']}: delete it with "
                f"`aws eks delete-access-entry --cluster-name {self.hub.name} --principal-arn {identity.role.arn}`"
            )
        if is_entry_of(identity, found):
            return False
        await self.api.call("eks", "update_access_entry", **self._names(identity), **_fields(identity))
        return True

    async def is_correct(self, identity: ClusterIdentity) -> bool:
        """Whether the entry maps to the cluster's group and to no other."""
        found = await self._find(identity)
        return found is not None and is_entry_of(identity, found)

    async def delete(self, identity: ClusterIdentity) -> None:
        """Delete the entry, unless it is gone."""
        await find(self.api, "eks", "delete_access_entry", **self._names(identity))

    async def _create(self, identity: ClusterIdentity) -> Mapping[str, Any]:
        names, fields = self._names(identity), _fields(identity)
        return await self.api.call("eks", "create_access_entry", **names, **fields, type=STANDARD)

    async def _find(self, identity: ClusterIdentity) -> Mapping[str, Any] | None:
        found = await find(self.api, "eks", "describe_access_entry", **self._names(identity))
        return None if found is None else found["accessEntry"]

    def _names(self, identity: ClusterIdentity) -> dict[str, Any]:
        return {"clusterName": self.hub.name, "principalArn": identity.role.arn}


def is_entry_of(identity: ClusterIdentity, entry: Mapping[str, Any]) -> bool:
    """Whether an access entry is exactly the one of a cluster."""
    groups = tuple(entry.get("kubernetesGroups") or ())
    return groups == identity.entry_groups and entry.get("username") == identity.user


def _fields(identity: ClusterIdentity) -> dict[str, Any]:
    return {"kubernetesGroups": list(identity.entry_groups), "username": identity.user}
