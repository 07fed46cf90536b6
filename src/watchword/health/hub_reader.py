"""Reads the facts about a hub once, for commands that print and end."""

import asyncio
import base64
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from watchword.api.accounts import ACCOUNT_KINDS
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.names import Label
from watchword.api.pull_secrets import CONFIGURATION
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.lifecycle import read_bound_token
from watchword.health.audit_log import CredentialUsage
from watchword.health.errors import NotAHub
from watchword.health.facts import FORBIDDEN, OPTIONAL, SOURCES, UNKNOWN_KIND, AccountToken, HubFacts, facts_by_source
from watchword.kube.client import Client
from watchword.kube.errors import Forbidden, NotFound
from watchword.pullsecrets.inventory import read_pull_secrets
from watchword.pullsecrets.pull_secret import PullSecret
from watchword.runtime.informer import WatchScope

NOT_A_HUB = (
    "this cluster is not a hub: choose the hub with --kubeconfig or --context, or make this cluster a hub with "
    "`watchword init`"
)


async def require_hub(client: Client) -> None:
    """Raise `NotAHub` when the server does not serve ManagedClusters."""
    try:
        await client.read(MANAGED_CLUSTERS.path(), query={"limit": "1"})
    except NotFound as cause:
        raise NotAHub(NOT_A_HUB) from cause
    except Forbidden:
        return  # the kind is there


def require_fleet(facts: HubFacts) -> HubFacts:
    """Raise `NotAHub` when the facts are neither of a hub nor of a cluster with pull secrets."""
    if facts.missing.get("clusters") == UNKNOWN_KIND:
        raise NotAHub(NOT_A_HUB)
    return facts


async def read_hub_facts(client: Client, *, usage: CredentialUsage | None = None) -> HubFacts:
    """Read everything at once; what this user may not see is named in `unseen`."""
    found, unseen, absent = await read_sources(client, SOURCES)
    accounts, pull_secrets = await asyncio.gather(_read_accounts(client), _read_pull_secrets(client))
    if pull_secrets is None and await _has_pull_secrets(client):
        unseen["pull secrets"] = FORBIDDEN
    return replace(
        facts_by_source(found, unseen),
        accounts=accounts,
        pull_secrets=pull_secrets,
        absent=absent,
        usage=usage,
        account_tokens=await _read_account_tokens(client) if usage is not None and accounts else {},
    )


async def read_sources(
    client: Client, sources: Mapping[str, tuple[Resource, WatchScope]]
) -> tuple[dict[str, Sequence[Object]], dict[str, str], frozenset[str]]:
    """List each source; return what was found, why others could not be read, and which kinds are not served."""
    answers = await asyncio.gather(*(_read(client, *where) for where in sources.values()))
    found: dict[str, Sequence[Object]] = {}
    unseen: dict[str, str] = {}
    absent: set[str] = set()
    for name, answer in zip(sources, answers, strict=True):
        if not isinstance(answer, str):
            found[name] = answer
        elif answer == UNKNOWN_KIND and name in OPTIONAL:
            absent.add(name)
        else:
            unseen[name] = answer
    return found, unseen, frozenset(absent)


async def _read_accounts(client: Client) -> Sequence[Object]:
    """Return the managed service accounts; none where the add-on was never installed."""
    answers = await asyncio.gather(*(_read(client, kind, WatchScope()) for kind in ACCOUNT_KINDS))
    return [obj for answer in answers if not isinstance(answer, str) for obj in answer]


async def _read_account_tokens(client: Client) -> dict[ObjectKey, AccountToken]:
    """Return the ids of the tokens that managed service accounts have; none where Secrets may not be read."""
    answer = await _read(client, SECRETS, WatchScope(labels=f"{Label.MANAGED_ACCOUNT}=true"))
    found = {} if isinstance(answer, str) else {ObjectKey.of(secret): _account_token(secret) for secret in answer}
    return {key: token for key, token in found.items() if token is not None}


def _account_token(secret: Object) -> AccountToken | None:
    try:
        token = read_bound_token(base64.b64decode((secret.get("data") or {}).get("token") or "").decode())
    except ValueError:
        return None
    return AccountToken(token.subject, token.credential_id) if token is not None and token.credential_id else None


async def _read_pull_secrets(client: Client) -> Sequence[PullSecret] | None:
    try:
        return await read_pull_secrets(client)
    except Forbidden:
        return None


async def _has_pull_secrets(client: Client) -> bool:
    """Whether the controllers are configured, as far as a user who may not read Secrets can see."""
    try:
        return await client.find(CONFIG_MAPS, CONFIGURATION) is not None
    except Forbidden:
        return False


async def _read(client: Client, resource: Resource, scope: WatchScope) -> Sequence[Object] | str:
    try:
        listed = await client.list(resource, namespace=scope.namespace, labels=scope.labels, fields=scope.fields)
    except NotFound:
        return UNKNOWN_KIND
    except Forbidden:
        return FORBIDDEN
    return listed.items
