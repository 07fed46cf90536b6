"""IAM and EKS access entries in memory, with their limits: for tests and figures in virtual time.

It answers the operations that hubs use, and refuses with the error codes of AWS. Signatures and policies are not
evaluated.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from watchword.credentials.driver import AgentContext, CredentialCondition, CredentialKind, HubContext, Settings
from watchword.registration.aws_irsa.driver import AwsIrsaDriver
from watchword.registration.aws_irsa.errors import AwsRefused, AwsUnreachable
from watchword.registration.aws_irsa.hub import make_hub_driver
from watchword.registration.aws_irsa.options import ANNOTATIONS, HUB_OPTIONS, READY
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import AnnotatesCluster, ClusterDriver, HubDriver, KnownByUser

NAME = "aws-irsa"
_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass
class MemoryRole:
    """A role, with the instant from which other requests see it."""

    arn: str
    trust: Any
    tags: dict[str, str]
    visible_from: float
    policies: dict[str, Any] = field(default_factory=dict)
    attached: list[str] = field(default_factory=list)


@dataclass
class MemoryAws:
    """One account. `requests` counts every request by operation, refused ones too."""

    account: str
    partition: str = "aws"
    authentication_mode: str = "API_AND_CONFIG_MAP"  # empty: there is no such EKS cluster
    limit: float = 0.0  # requests to IAM in a second; 0: no limit
    lag: float = 0.0  # seconds until a new role is seen
    reachable: bool = True
    denied: frozenset[str] = frozenset()  # operations that the credentials may not use
    absent_principals: frozenset[str] = frozenset()  # roles that trust policies cannot name
    roles: dict[str, MemoryRole] = field(default_factory=dict)
    entries: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    throttled: int = 0
    _recent: list[float] = field(default_factory=list, init=False)

    async def call(self, service: str, operation: str, **arguments: Any) -> Mapping[str, Any]:
        """Answer one request, as `AwsApi.call` does."""
        self.requests[f"{service}:{operation}"] += 1
        await asyncio.sleep(0.001)
        if not self.reachable:
            raise AwsUnreachable("AWS cannot be asked (EndpointConnectionError): check the network")
        if service == "iam" and self._is_throttled():
            self.throttled += 1
            raise _refusal("Throttling")
        if operation in self.denied:
            raise _refusal("AccessDenied")
        answer: Mapping[str, Any] = getattr(self, f"_{operation}")(
            **{_WORD.sub("_", name).lower(): value for name, value in arguments.items()}
        )
        return answer

    @property
    def iam_requests(self) -> int:
        """How many requests IAM got."""
        return sum(count for name, count in self.requests.items() if name.startswith("iam:"))

    def _is_throttled(self) -> bool:
        now = asyncio.get_running_loop().time()
        self._recent = [at for at in self._recent if at > now - 1]
        if self.limit and len(self._recent) >= self.limit:
            return True
        self._recent.append(now)
        return False

    def _role(self, name: str) -> MemoryRole:
        role = self.roles.get(name)
        if role is None or role.visible_from > asyncio.get_running_loop().time():
            raise _refusal("NoSuchEntity")
        return role

    def _get_caller_identity(self) -> Mapping[str, Any]:
        return {"Account": self.account, "Arn": f"arn:{self.partition}:sts::{self.account}:assumed-role/hub/session"}

    def _create_role(self, *, role_name: str, assume_role_policy_document: str, tags: Any) -> Mapping[str, Any]:
        if role_name in self.roles:
            raise _refusal("EntityAlreadyExists")
        trust = json.loads(assume_role_policy_document)
        self._check_principals(trust)
        arn = f"arn:{self.partition}:iam::{self.account}:role/{role_name}"
        visible = asyncio.get_running_loop().time() + self.lag
        self.roles[role_name] = MemoryRole(arn, trust, {tag["Key"]: tag["Value"] for tag in tags}, visible)
        return {"Role": {"Arn": arn}}

    def _check_principals(self, trust: Any) -> None:
        named = {statement["Principal"].get("AWS", "") for statement in trust["Statement"]}
        if named & self.absent_principals:
            raise _refusal("MalformedPolicyDocument")

    def _get_role(self, *, role_name: str) -> Mapping[str, Any]:
        role = self._role(role_name)
        tags = [{"Key": key, "Value": value} for key, value in role.tags.items()]
        return {"Role": {"Arn": role.arn, "AssumeRolePolicyDocument": role.trust, "Tags": tags}}

    def _get_role_policy(self, *, role_name: str, policy_name: str) -> Mapping[str, Any]:
        policies = self._role(role_name).policies
        if policy_name not in policies:
            raise _refusal("NoSuchEntity")
        return {"PolicyDocument": policies[policy_name]}

    def _put_role_policy(self, *, role_name: str, policy_name: str, policy_document: str) -> Mapping[str, Any]:
        self._role(role_name).policies[policy_name] = json.loads(policy_document)
        return {}

    def _update_assume_role_policy(self, *, role_name: str, policy_document: str) -> Mapping[str, Any]:
        trust = json.loads(policy_document)
        self._check_principals(trust)
        self._role(role_name).trust = trust
        return {}

    def _tag_role(self, *, role_name: str, tags: Any) -> Mapping[str, Any]:
        self._role(role_name).tags.update({tag["Key"]: tag["Value"] for tag in tags})
        return {}

    def _delete_role_policy(self, *, role_name: str, policy_name: str) -> Mapping[str, Any]:
        if self._role(role_name).policies.pop(policy_name, None) is None:
            raise _refusal("NoSuchEntity")
        return {}

    def _list_role_policies(self, *, role_name: str) -> Mapping[str, Any]:
        return {"PolicyNames": list(self._role(role_name).policies)}

    def _list_attached_role_policies(self, *, role_name: str) -> Mapping[str, Any]:
        return {"AttachedPolicies": [{"PolicyArn": arn} for arn in self._role(role_name).attached]}

    def _detach_role_policy(self, *, role_name: str, policy_arn: str) -> Mapping[str, Any]:
        self._role(role_name).attached.remove(policy_arn)
        return {}

    def _delete_role(self, *, role_name: str) -> Mapping[str, Any]:
        role = self._role(role_name)
        if role.policies or role.attached:
            raise _refusal("DeleteConflict")
        del self.roles[role_name]
        return {}

    def _describe_cluster(self, *, name: str) -> Mapping[str, Any]:
        if not self.authentication_mode:
            raise _refusal("ResourceNotFoundException")
        return {"cluster": {"name": name, "accessConfig": {"authenticationMode": self.authentication_mode}}}

    def _create_access_entry(self, *, cluster_name: str, principal_arn: str, **fields: Any) -> Mapping[str, Any]:
        del cluster_name
        if principal_arn in self.entries:
            raise _refusal("ResourceInUseException")
        self.entries[principal_arn] = self._checked_entry(principal_arn, fields)
        return {"accessEntry": self.entries[principal_arn]}

    def _checked_entry(self, principal: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        now = asyncio.get_running_loop().time()
        seen = [role.arn for role in self.roles.values() if role.visible_from <= now]
        if principal not in seen or any(group.startswith("system:") for group in fields["kubernetes_groups"]):
            raise _refusal("InvalidParameterException")
        return {"kubernetesGroups": fields["kubernetes_groups"], "username": fields["username"], "type": "STANDARD"}

    def _describe_access_entry(self, *, cluster_name: str, principal_arn: str) -> Mapping[str, Any]:
        del cluster_name
        if principal_arn not in self.entries:
            raise _refusal("ResourceNotFoundException")
        return {"accessEntry": self.entries[principal_arn]}

    def _update_access_entry(self, *, cluster_name: str, principal_arn: str, **fields: Any) -> Mapping[str, Any]:
        self._describe_access_entry(cluster_name=cluster_name, principal_arn=principal_arn)
        self.entries[principal_arn] = self._checked_entry(principal_arn, fields)
        return {"accessEntry": self.entries[principal_arn]}

    def _delete_access_entry(self, *, cluster_name: str, principal_arn: str) -> Mapping[str, Any]:
        self._describe_access_entry(cluster_name=cluster_name, principal_arn=principal_arn)
        del self.entries[principal_arn]
        return {}


def _refusal(code: str) -> AwsRefused:
    return AwsRefused(f"AWS refused the request with {code}", code=code)


class MemoryAwsDriver(ClusterDriver, AnnotatesCluster, KnownByUser):
    """A driver whose hub asks this account; no agent can use it."""

    name = AwsIrsaDriver.name
    options = HUB_OPTIONS
    annotations = ANNOTATIONS
    credential = CredentialKind(
        name="cluster IAM role",
        conditions=(CredentialCondition(READY, "AwsIdentityReady"),),
        consequence="{cluster} is refused by the hub",
    )

    def __init__(self, aws: MemoryAws) -> None:
        self.aws = aws

    def agent(self, context: AgentContext) -> NoReturn:
        """Raise: there is no agent."""
        raise NotImplementedError

    def hub(self, context: HubContext) -> HubDriver:
        """Return the hub's side, with this account."""
        return make_hub_driver(context, api=self.aws)

    def annotate(self, settings: Settings) -> Mapping[str, str]:
        """Return nothing: there is no agent."""
        return {}

    def cluster_user(self, cluster: str) -> str:
        return AwsIrsaDriver().cluster_user(cluster)


def hub_catalog(aws: MemoryAws) -> Catalog:
    """Return the catalog with a driver whose hub asks this account."""
    others = tuple(driver for driver in CATALOG.drivers if driver.name != MemoryAwsDriver.name)
    return Catalog((*others, MemoryAwsDriver(aws)))


def _no_agent(_context: AgentContext) -> NoReturn:
    raise AssertionError("an account in memory serves hubs, not agents")
