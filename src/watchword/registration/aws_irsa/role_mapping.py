"""Maps the role of a cluster to its group on the hub: by EKS access entry, or in the ConfigMap aws-auth."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from msgspec import Struct, field

from watchword.api import yaml
from watchword.api.meta import Object, ObjectKey, mapping_at
from watchword.api.resources import CONFIG_MAPS
from watchword.kube.backoff import Backoff
from watchword.kube.client import Client
from watchword.kube.errors import AlreadyExists, Conflict
from watchword.registration.aws_irsa.aws_api import AwsApi, find
from watchword.registration.aws_irsa.documents import EksClusterArn
from watchword.registration.aws_irsa.errors import AwsAuthUnreadable, AwsRefused, ForeignRole
from watchword.registration.aws_irsa.iam import settled
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.runtime.ensure import with_preconditions

ACCESS_ENTRY, CONFIG_MAP = "access-entry", "aws-auth"
MODE_TTL = 600.0  # seconds: the authentication mode of an EKS cluster changes once in its life


class RoleMappings(Struct):
    """Maps the roles of clusters on one hub."""

    entries: AccessEntries
    config_map: AwsAuthConfigMap
    _current: AccessEntries | AwsAuthConfigMap | None = None
    _asked_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def create(self, identity: ClusterIdentity) -> str:
        """Map a new role; return how."""
        current = await self.current()
        await current.create(identity)
        return ACCESS_ENTRY if current is self.entries else CONFIG_MAP

    async def delete(self, identity: ClusterIdentity, mapped_by: str) -> None:
        """Remove the mapping; also the one from before, when the hub has changed its authentication mode since."""
        current = await self.current()
        await current.delete(identity)
        if mapped_by == CONFIG_MAP and current is not self.config_map:
            await self.config_map.delete(identity)

    async def current(self) -> AccessEntries | AwsAuthConfigMap:
        """Return how the hub maps roles now."""
        async with self._lock:  # many clusters at once share one request
            now = asyncio.get_running_loop().time()
            if self._current is None or now - self._asked_at >= MODE_TTL:
                self._current = self.entries if await self.entries.are_available() else self.config_map
                self._asked_at = now
            return self._current


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
        found = await find(self.api, "eks", "describe_cluster", name=self.hub.name)
        return mapping_at(found, "cluster", "accessConfig").get("authenticationMode") in MODES_WITH_ENTRIES

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
    groups = tuple(entry.get("kubernetesGroups") or ())
    return groups == identity.entry_groups and entry.get("username") == identity.user


def _fields(identity: ClusterIdentity) -> dict[str, Any]:
    return {"kubernetesGroups": list(identity.entry_groups), "username": identity.user}


ROLE = "rolearn"
_QUOTED = re.compile(r""" "(?:\\.|[^"\\])*" | '[^']*' """, re.VERBOSE)
_COMMENT = re.compile(r"(?m)(?:^|\s)#")
_DASH = re.compile(r"(?m)^( *)-\s")  # of the first entry
Entry = Mapping[str, Any]


def read_entries(text: str) -> list[Entry]:
    """Return the entries; `AwsAuthUnreadable` when the text is no list of mappings."""
    try:
        found = yaml.load(text)
    except yaml.YamlError as error:
        raise AwsAuthUnreadable(_advice(str(error))) from error
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise AwsAuthUnreadable(_advice("it is not a list of entries"))
    return found


def with_entry(text: str, entry: Entry) -> str:
    """Return the text with exactly this entry for its role; the same text when it has it already.

    `AwsAuthUnreadable` when the list would have to be written anew, and comments or numbers of others be lost.
    """
    entries = read_entries(text)
    of_role = [each for each in entries if each.get(ROLE) == entry[ROLE]]
    if of_role == [dict(entry)]:
        return text
    kept = without_role(text, entry[ROLE])
    present = read_entries(kept)
    edited, wanted = _appended(kept, entry), [*present, dict(entry)]
    if _reads_as(edited, wanted):
        return edited
    has_comments = _COMMENT.search(_QUOTED.sub("", kept)) is not None
    if has_comments or not all(_is_text(value) for each in present for value in each.values()):
        raise AwsAuthUnreadable(_advice("to add an entry would lose comments or numbers: write it as a block list"))
    return yaml.dump(wanted)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) or (isinstance(value, list) and all(isinstance(item, str) for item in value))


def without_role(text: str, role_arn: str) -> str:
    """Return the text without the entries of a role, written anew where it must; the same text when there is none."""
    entries = read_entries(text)
    kept = [entry for entry in entries if entry.get(ROLE) != role_arn]
    if len(kept) == len(entries):
        return text
    edited = _cut(text, [entry.get(ROLE) == role_arn for entry in entries])
    return edited if _reads_as(edited, kept) else yaml.dump(kept) if kept else ""


def _reads_as(text: str, wanted: Sequence[Entry]) -> bool:
    try:
        return read_entries(text) == list(wanted)
    except AwsAuthUnreadable:
        return False


def _appended(text: str, entry: Entry) -> str:
    dash = _DASH.search(text)
    lines = yaml.dump([dict(entry)]).splitlines(keepends=True)
    newline = "" if not text or text.endswith("\n") else "\n"
    return text + newline + "".join((dash[1] if dash else "") + line for line in lines)


def _cut(text: str, dropped: Sequence[bool]) -> str:
    """Return the text without the lines of some entries of a block list; comments before the next entry stay."""
    lines, dash = text.splitlines(keepends=True), _DASH.search(text)
    starts = [number for number, line in enumerate(lines) if dash and re.match(rf"{dash[1]}-\s", line)]
    if len(starts) != len(dropped):
        return text
    gone: set[int] = set()
    for start, end, drop in zip(starts, [*starts[1:], len(lines)], dropped, strict=True):
        last = end
        while last > start + 1 and lines[last - 1].strip()[:1] in ("", "#"):
            last -= 1
        gone |= set(range(start, last)) if drop else set()
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def _advice(problem: str) -> str:
    return (
        f"mapRoles in ConfigMap kube-system/aws-auth cannot be read: {problem}; correct it with "
        "`kubectl -n kube-system edit configmap aws-auth`; it is left as it is"
    )


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

    repair = create

    async def is_correct(self, identity: ClusterIdentity) -> bool:
        text = _map_roles(await self.client.find(CONFIG_MAPS, AWS_AUTH))
        found = [entry for entry in read_entries(text) if entry.get("rolearn") == identity.role.arn]
        return found == [dict(identity.config_map_entry)]

    async def delete(self, identity: ClusterIdentity) -> None:
        await self._edit(lambda text: without_role(text, identity.role.arn))

    async def _edit(self, change: Callable[[str], str]) -> bool:
        """Change the text; repeated until no other writer was faster. `AwsAuthUnreadable` when it cannot be read."""
        failures = 0
        while True:
            present = await self.client.find(CONFIG_MAPS, AWS_AUTH)
            text = _map_roles(present)
            changed = change(text)
            if changed == text:
                return False
            try:
                await self._write(present, changed)
            except (AlreadyExists, Conflict):
                failures += 1
                await asyncio.sleep(CONTENTION.delay(failures, self.random))
            else:
                return True

    async def _write(self, present: Object | None, text: str) -> None:
        data = {"data": {MAP_ROLES: text}}
        if present is None:
            await self.client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(AWS_AUTH, **data))
        else:
            await self.client.patch(CONFIG_MAPS, AWS_AUTH, with_preconditions(present, data))


def _map_roles(present: Object | None) -> str:
    return str(((present or {}).get("data") or {}).get(MAP_ROLES) or "")
