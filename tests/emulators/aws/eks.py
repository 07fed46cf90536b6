"""EKS: describes clusters, and keeps their access entries by the rules of the real service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from urllib.parse import unquote

import orjson
from tests.emulators.aws.errors import AwsFault
from tests.emulators.aws.iam_store import IamStore
from tests.emulators.aws.principals import Principal
from tests.emulators.aws.roles import Roles

from watchword.api.http import Request, Response
from watchword.api.meta import Object
from watchword.runtime.clock import Clock

CONFIG_MAP, API_AND_CONFIG_MAP, API = "CONFIG_MAP", "API_AND_CONFIG_MAP", "API"
RESERVED_USERS = ("system:", "eks:", "aws:", "amazon:", "iam:")
PAGE = 100

EntryHandler = Callable[["EksClusterState", str, Mapping[str, Any]], Object]
"""Takes the cluster, the ARN in the path, and the parameters; returns the response."""


@dataclass
class EksClusterState:
    """One cluster of an account, with its access entries by the ARN of their principal."""

    arn: str
    authentication_mode: str
    describe: Callable[[], Object]  # endpoint, certificate authority, OIDC issuer
    entries: dict[str, Object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of the cluster."""
        return self.arn.rpartition("/")[2]

    @property
    def has_entries(self) -> bool:
        """Whether the authentication mode of the cluster has access entries."""
        return self.authentication_mode in {API_AND_CONFIG_MAP, API}

    @property
    def reads_config_map(self) -> bool:
        """Whether the authentication mode of the cluster reads the ConfigMap `aws-auth`."""
        return self.authentication_mode in {API_AND_CONFIG_MAP, CONFIG_MAP}


@dataclass
class EksService:
    """Answers DescribeCluster, ListClusters and the five operations on access entries."""

    store: IamStore
    roles: Roles
    clock: Clock
    clusters: dict[str, EksClusterState] = field(default_factory=dict)  # by ARN
    principal_delay: timedelta = timedelta(0)  # how long EKS does not see a new role yet

    def answer(self, action: str, request: Request, region: str, principal: Principal) -> Response:
        """Return the response to a signed request."""
        parts = _segments(request)
        owner = f"arn:{principal.partition}:eks:{region}:{principal.account}:cluster/"
        if action == "ListClusters":
            self.roles.authorize(principal, f"eks:{action}", "*")
            return _json({"clusters": [each.name for arn, each in self.clusters.items() if arn.startswith(owner)]})
        cluster = self._cluster(owner + parts[1])
        self.roles.authorize(principal, f"eks:{action}", _resource(cluster, parts))
        if action == "DescribeCluster":
            return _json({"cluster": _description(cluster)})
        if not cluster.has_entries:
            modes = f"[{API}, {API_AND_CONFIG_MAP}]"
            message = f"The cluster's authentication mode must be set to one of {modes} to perform this operation."
            raise AwsFault("InvalidRequestException", message)
        body = orjson.loads(request.body) if request.body else {}
        handler: EntryHandler = getattr(self, _HANDLERS[action])
        page = {"nextToken": request.parameter("nextToken"), "maxResults": request.parameter("maxResults")}
        return _json(handler(cluster, parts[3] if len(parts) > 3 else "", {**page, **body}))

    def _cluster(self, arn: str) -> EksClusterState:
        found = self.clusters.get(arn)
        if found is None:
            raise AwsFault("ResourceNotFoundException", f"No cluster found for name: {arn.rpartition('/')[2]}.", 404)
        return found

    def create_entry(self, cluster: EksClusterState, _arn: str, body: Mapping[str, Any]) -> Object:
        """Create an access entry for a role that exists."""
        arn = str(body.get("principalArn", ""))
        role = self.store.find_role(arn)
        if role is None or self.clock.now() - role.created_at < self.principal_delay:
            raise AwsFault(
                "InvalidParameterException", f"The specified principalArn is invalid: invalid principal. {arn}"
            )
        if arn in cluster.entries:
            message = "The specified access entry resource is already in use on this cluster."
            raise AwsFault("ResourceInUseException", message, 409)
        _, partition, _, region, account, _ = cluster.arn.split(":")
        entry = {
            "clusterName": cluster.name,
            "principalArn": arn,
            "accessEntryArn": f"arn:{partition}:eks:{region}:{account}:access-entry/{cluster.name}/role/{account}/"
            f"{arn.rpartition('/')[2]}/{len(cluster.entries)}",
            "kubernetesGroups": _groups(body),
            "username": _username(body)
            or f"{arn.replace(':iam:', ':sts:').replace(':role/', ':assumed-role/')}/{{{{SessionName}}}}",
            "type": body.get("type") or "STANDARD",
            "tags": dict(body.get("tags") or {}),
            "createdAt": self.clock.now().timestamp(),
            "modifiedAt": self.clock.now().timestamp(),
        }
        cluster.entries[arn] = entry
        return {"accessEntry": entry}

    def describe_entry(self, cluster: EksClusterState, arn: str, _body: Mapping[str, Any]) -> Object:
        """Return an access entry."""
        return {"accessEntry": _entry(cluster, arn)}

    def update_entry(self, cluster: EksClusterState, arn: str, body: Mapping[str, Any]) -> Object:
        """Replace the groups or the user name of an access entry."""
        entry = _entry(cluster, arn)
        changes: Object = {"modifiedAt": self.clock.now().timestamp()}
        if body.get("kubernetesGroups") is not None:
            changes["kubernetesGroups"] = _groups(body)
        if body.get("username") is not None:
            changes["username"] = _username(body)
        entry.update(changes)
        return {"accessEntry": entry}

    def delete_entry(self, cluster: EksClusterState, arn: str, _body: Mapping[str, Any]) -> Object:
        """Delete an access entry."""
        _entry(cluster, arn)
        del cluster.entries[arn]
        return {}

    def list_entries(self, cluster: EksClusterState, _arn: str, body: Mapping[str, Any]) -> Object:
        """Return the principals of the access entries, a page at a time."""
        start, size = int(body["nextToken"] or 0), int(body["maxResults"] or PAGE)
        arns = sorted(cluster.entries)
        page: Object = {"accessEntries": arns[start : start + size]}
        return page | {"nextToken": str(start + size)} if len(arns) > start + size else page


def eks_action(request: Request) -> str:
    """Return the action of a request by its method and path; `AwsFault` when it is not served here."""
    parts = _segments(request)
    action = ACTIONS.get((request.method, len(parts)), "")
    if parts[0] != "clusters" or not action or (len(parts) > 2 and parts[2] != "access-entries"):
        raise AwsFault("NotFoundException", f"The emulator does not serve {request.method} {request.path}", 404)
    return action


ACTIONS: Mapping[tuple[str, int], str] = {
    ("GET", 1): "ListClusters",
    ("GET", 2): "DescribeCluster",
    ("POST", 3): "CreateAccessEntry",
    ("GET", 3): "ListAccessEntries",
    ("GET", 4): "DescribeAccessEntry",
    ("POST", 4): "UpdateAccessEntry",
    ("DELETE", 4): "DeleteAccessEntry",
}
"""Method and number of path segments → action."""

_HANDLERS = {
    "CreateAccessEntry": "create_entry",
    "ListAccessEntries": "list_entries",
    "DescribeAccessEntry": "describe_entry",
    "UpdateAccessEntry": "update_entry",
    "DeleteAccessEntry": "delete_entry",
}


def _resource(cluster: EksClusterState, parts: list[str]) -> str:
    """Return the ARN that policies have to name: that of the access entry, where the request is about one."""
    if len(parts) < 4:
        return cluster.arn
    owner, role = cluster.arn.rpartition(":")[0], parts[3].partition(":role/")[2]
    account = cluster.arn.split(":")[4]
    return f"{owner}:access-entry/{cluster.name}/role/{account}/{role}/0"


def _segments(request: Request) -> list[str]:
    return [unquote(part) for part in request.path.strip("/").split("/")]


def _entry(cluster: EksClusterState, arn: str) -> Object:
    found = cluster.entries.get(arn)
    if found is None:
        message = "The specified principalArn could not be found. You can view your available access entries."
        raise AwsFault("ResourceNotFoundException", message, 404)
    return found


def _groups(body: Mapping[str, Any]) -> list[str]:
    groups = [str(group) for group in body.get("kubernetesGroups") or []]
    if any(group.startswith("system:") for group in groups):
        message = "The kubernetes group name is invalid, it cannot start with system:"
        raise AwsFault("InvalidParameterException", message)
    return groups


def _username(body: Mapping[str, Any]) -> str:
    name = str(body.get("username") or "")
    if name.startswith(RESERVED_USERS):
        raise AwsFault("InvalidParameterException", f"The username cannot start with {name.partition(':')[0]}:")
    return name


def _description(cluster: EksClusterState) -> Object:
    access = {"authenticationMode": cluster.authentication_mode}
    return {"name": cluster.name, "arn": cluster.arn, "status": "ACTIVE", "accessConfig": access, **cluster.describe()}


def _json(document: Object) -> Response:
    return Response(200, (("Content-Type", "application/json"),), orjson.dumps(document))
