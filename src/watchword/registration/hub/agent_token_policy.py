"""Limits tokens that agents request to this hub and to a year, and those of the gRPC server to accounts of add-ons.

Agents may request tokens of their add-ons' accounts, and a TokenRequest lets the requester choose audience and
lifetime. A token for another audience would authenticate the add-on at other services that trust this hub's issuer,
and one without expiry would outlive every rotation. The gRPC server requests them on behalf of agents: RBAC cannot
limit it to accounts of add-ons, which have names of their own on every cluster.
"""

from watchword.api import names
from watchword.api.admission_policy import PolicyName, bound_policy, text_literal
from watchword.api.meta import Manifest, Object, ObjectKey
from watchword.api.resources import SERVICE_ACCOUNTS
from watchword.credentials.certificates.requests import GRPC_SERVER_USER
from watchword.kube.client import Client
from watchword.kube.errors import KubeError
from watchword.kube.request_sender import decode
from watchword.runtime.manifests import apply_manifests

FIELD_MANAGER = "watchword-hub"
SHORTEST_SECONDS = 600


async def install_agent_token_policy(client: Client) -> None:
    """Install the admission policy, unless the server serves no such policies."""
    await apply_manifests(client, policy_manifests(await own_audiences(client)), manager=FIELD_MANAGER)


async def own_audiences(client: Client) -> tuple[str, ...]:
    """Return the server's default audiences; empty when it does not reveal them.

    Only the server knows them: they are in its response to any token request, whose token is discarded here.
    """
    account = ObjectKey(names.BOOTSTRAP_NAMESPACE, names.BOOTSTRAP_SERVICE_ACCOUNT)
    body: Object = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
    body["spec"] = {"expirationSeconds": SHORTEST_SECONDS, "audiences": []}
    try:
        path = SERVICE_ACCOUNTS.path(account, subresource="token")
        answer = decode(await client.request("POST", path, body=body))
    except KubeError:
        return ()
    return tuple(str(name) for name in (answer.get("spec") or {}).get("audiences") or ())


def policy_manifests(audiences: tuple[str, ...]) -> tuple[Manifest, Manifest]:
    """Return the policy and its binding; without known audiences they limit lifetimes and accounts alone."""
    seconds = "object.spec.expirationSeconds"
    agents = " || ".join(f"group.startsWith('{prefix}')" for prefix in names.AGENT_GROUP_PREFIXES)
    server = f"request.userInfo.username == '{GRPC_SERVER_USER}'"
    labels = "namespaceObject.metadata.labels"
    is_of_cluster = f"has({labels}) && '{names.Label.CLUSTER_NAME}' in {labels}"
    is_of_addon = f"{labels}['{names.Label.CLUSTER_NAME}'] == request.namespace && request.name.endsWith('-agent')"
    rules = {
        f"!has({seconds}) || {seconds} <= {names.LONGEST_AGENT_TOKEN_SECONDS}": (
            f"agents may request tokens of at most {names.LONGEST_AGENT_TOKEN_SECONDS} seconds"
        ),
        f"!({server}) || ({is_of_cluster} && {is_of_addon})": (
            "the gRPC server may request tokens of add-ons' accounts in the namespaces of clusters alone"
        ),
    }
    if audiences:
        known = ", ".join(map(text_literal, audiences))
        rules[f"!has(object.spec.audiences) || object.spec.audiences.all(name, name in [{known}])"] = (
            "agents may request tokens for this hub alone: name no audience"
        )
    whom = f"{server} || request.userInfo.groups.exists(group, {agents})"
    about = ("", "serviceaccounts/token")
    return bound_policy(PolicyName.AGENT_TOKENS, about, rules, operations=("CREATE",), only_for=whom)
