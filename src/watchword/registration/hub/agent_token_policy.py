"""Limits tokens that agents request to this hub and to a year.

Agents may request tokens of their add-ons' accounts, and a TokenRequest lets the requester choose audience and
lifetime. A token for another audience would authenticate the add-on at other services that trust this hub's issuer,
and one without expiry would outlive every rotation.
"""

from __future__ import annotations

import contextlib

from watchword.api.meta import Object, ObjectKey
from watchword.api.names import (
    AGENT_GROUP_PREFIXES,
    BOOTSTRAP_NAMESPACE,
    BOOTSTRAP_SERVICE_ACCOUNT,
    LONGEST_AGENT_TOKEN_SECONDS,
)
from watchword.api.resources import (
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.kube.client import Client
from watchword.kube.errors import KubeError, NotFound
from watchword.kube.request_sender import decode

POLICY_NAME = "agent-tokens.watchword.dev"
FIELD_MANAGER = "watchword-hub"
SHORTEST_SECONDS = 600


async def install_agent_token_policy(client: Client) -> None:
    """Install the admission policy, unless the server serves no such policies."""
    binding = VALIDATING_ADMISSION_POLICY_BINDINGS.manifest(
        ObjectKey.cluster(POLICY_NAME), spec={"policyName": POLICY_NAME, "validationActions": ["Deny"]}
    )
    with contextlib.suppress(NotFound):
        await client.apply(VALIDATING_ADMISSION_POLICY_BINDINGS, binding, manager=FIELD_MANAGER, force=True)
        policy = policy_manifest(await own_audiences(client))
        await client.apply(VALIDATING_ADMISSION_POLICIES, policy, manager=FIELD_MANAGER, force=True)


async def own_audiences(client: Client) -> tuple[str, ...]:
    """Return the server's default audiences; empty when it does not reveal them.

    Only the server knows them: they are in its response to any token request, whose token is discarded here.
    """
    account = ObjectKey(BOOTSTRAP_NAMESPACE, BOOTSTRAP_SERVICE_ACCOUNT)
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": SHORTEST_SECONDS, "audiences": []}
    try:
        path = SERVICE_ACCOUNTS.path(account, subresource="token")
        answer = decode(await client.request("POST", path, body=body))
    except KubeError:
        return ()
    return tuple(str(name) for name in (answer.get("spec") or {}).get("audiences") or ())


def policy_manifest(audiences: tuple[str, ...]) -> Object:
    """Return the policy; without known audiences it limits the lifetime alone."""
    seconds = "object.spec.expirationSeconds"
    agents = " || ".join(f"group.startsWith('{prefix}')" for prefix in AGENT_GROUP_PREFIXES)
    validations = [
        {
            "expression": f"!has({seconds}) || {seconds} <= {LONGEST_AGENT_TOKEN_SECONDS}",
            "message": f"agents may request tokens of at most {LONGEST_AGENT_TOKEN_SECONDS} seconds",
            "reason": "Forbidden",
        }
    ]
    if audiences:
        known = ", ".join(f"'{_escape(name)}'" for name in audiences)
        validations.append(
            {
                "expression": f"!has(object.spec.audiences) || object.spec.audiences.all(name, name in [{known}])",
                "message": "agents may request tokens for this hub alone: name no audience",
                "reason": "Forbidden",
            }
        )
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["serviceaccounts/token"]}
    return VALIDATING_ADMISSION_POLICIES.manifest(
        ObjectKey.cluster(POLICY_NAME),
        spec={
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [
                {"name": "agents", "expression": f"request.userInfo.groups.exists(group, {agents})"},
            ],
            "validations": validations,
        },
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'")
