"""Who may assume a role: its trust policy, what it named when it was written, and the caller's own policies."""

from __future__ import annotations

import json
from collections.abc import Mapping

from msgspec import Struct, field
from tests.emulators.aws.errors import AwsFault, denied
from tests.emulators.aws.iam_store import IamStore, StoredRole
from tests.emulators.aws.policies import PolicyRequest, aws_principals, is_allowed, is_trusted
from tests.emulators.aws.principals import AssumedRole, Principal

ASSUME = "sts:AssumeRole"
ASSUME_WITH_TOKEN = "sts:AssumeRoleWithWebIdentity"
TRUST_ACTIONS = {"CreateRole": "AssumeRolePolicyDocument", "UpdateAssumeRolePolicy": "PolicyDocument"}
"""Action → the parameter with the trust policy."""


class Roles(Struct, frozen=True):
    """IAM keeps the id of each role that a trust policy names: a role of the same name is not trusted again."""

    store: IamStore
    pinned: dict[str, dict[str, str]] = field(default_factory=dict)  # role → role that it trusts → its id then

    def authorize(self, principal: Principal, action: str, resource: str) -> None:
        """Raise `AwsFault` unless the caller's policies allow an action; administrators may do everything."""
        if principal.role is None:
            return
        role = self.store.find_role(principal.role.arn)
        if role is None or role.id != principal.role.id:
            raise denied(action, principal.arn, resource)
        if not is_allowed(role.access, PolicyRequest(action, resource, context=_tags(principal.role))):
            raise denied(action, principal.arn, resource)

    def check_trust_policy(self, principal: Principal, action: str, parameters: Mapping[str, str]) -> None:
        """Refuse a trust policy that names a role which does not exist, as IAM does; remember the ids otherwise."""
        if action not in TRUST_ACTIONS:
            return
        try:
            policy = json.loads(parameters.get(TRUST_ACTIONS[action], ""))
        except ValueError as cause:
            raise AwsFault("MalformedPolicyDocument", "This policy contains invalid Json") from cause
        arns = [arn for arn in aws_principals(policy) if ":role/" in arn]
        found = {arn: self.store.find_role(arn) for arn in arns}
        missing = [arn for arn, role in found.items() if role is None]
        if missing:
            raise AwsFault("MalformedPolicyDocument", f'Invalid principal in policy: "AWS":"{missing[0]}"')
        arn = f"arn:{principal.partition}:iam::{principal.account}:role/{parameters.get('RoleName', '')}"
        self.pinned[arn] = {name: role.id for name, role in found.items() if role is not None}

    def assume(self, principal: Principal, arn: str) -> StoredRole:
        """Return the role that a caller may assume; `AwsFault` when it may not, or when there is none."""
        role = self.store.find_role(arn)
        if role is None:
            raise denied(ASSUME, principal.arn, arn)
        if principal.account != arn.split(":")[4] or principal.role is not None:
            self.authorize(principal, ASSUME, arn)
        context = _tags(principal.role) if principal.role is not None else {}
        attempt = PolicyRequest(ASSUME, principals={"AWS": principal.names}, context=context)
        if not is_trusted(role.trust, attempt) or not self._is_same_role(arn, principal):
            raise denied(ASSUME, principal.arn, arn)
        return role

    def assume_with_token(self, provider: str, claims: Mapping[str, tuple[str, ...]], arn: str) -> StoredRole:
        """Return the role that the holder of a verified token of an OIDC provider may assume."""
        role = self.store.find_role(arn)
        parts = arn.split(":")
        federated = f"arn:{parts[1]}:iam::{parts[4]}:oidc-provider/{provider}" if role is not None else ""
        context = {f"{provider}:{name}": values for name, values in claims.items()}
        attempt = PolicyRequest(ASSUME_WITH_TOKEN, principals={"Federated": frozenset({federated})}, context=context)
        if role is None or not is_trusted(role.trust, attempt):
            raise AwsFault("AccessDenied", f"Not authorized to perform {ASSUME_WITH_TOKEN}", 403)
        return role

    def _is_same_role(self, arn: str, principal: Principal) -> bool:
        if principal.role is None:
            return True
        return self.pinned.get(arn, {}).get(principal.role.arn, principal.role.id) == principal.role.id


def _tags(role: AssumedRole) -> dict[str, tuple[str, ...]]:
    return {f"aws:PrincipalTag/{key}": (value,) for key, value in role.tags.items()}
