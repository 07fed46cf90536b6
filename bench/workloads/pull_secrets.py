"""Many ServiceAccounts are created → each has an image pull secret with a token for every registry, and lists it."""

from __future__ import annotations

import base64

import orjson

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Cluster, Run, bounded
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.pull_secrets import (
    ANNOTATION_ACCOUNT,
    DOCKERCFG_KEY,
    DOCKERCFG_TYPE,
    REGISTRY_SERVICES,
    SIGNING_KEY_FIELD,
    SIGNING_KEY_SECRET,
)
from watchword.api.resources import CLUSTER_ROLE_BINDINGS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS, SERVICES
from watchword.testing.builders import a_cluster_role_binding

PARAMETERS = {"n": 500, "namespaces": 50, "settle": 120}
OPENSHIFT_NAMESPACE = "openshift-infra"  # of the account that OpenShift's controllers act as
OF_PULL_SECRETS = f"type={DOCKERCFG_TYPE}"


async def run(one: Run) -> Result:
    """Count afterwards how many accounts list their pull secret: being quick must not mean leaving things out."""
    one.users += (f"system:serviceaccount:{OPENSHIFT_NAMESPACE}:",)
    hub = await one.cluster("hub")
    await _prepare(hub, one.parameters["namespaces"])
    one.launch_all()
    await one.quiet()
    wanted = one.parameters["n"]
    filled: set[ObjectKey] = set()

    def is_done(_: str, secret: Object) -> bool:
        account = annotations_of(secret).get(ANNOTATION_ACCOUNT, "")
        if account.startswith("app") and _is_filled(secret):
            filled.add(ObjectKey(secret["metadata"]["namespace"], account))
        return len(filled) == wanted

    keys = [ObjectKey(f"ns{number % one.parameters['namespaces']:03}", f"app{number:04}") for number in range(wanted)]
    async with FinishLine(hub.client, SECRETS, is_done, fields=OF_PULL_SECRETS) as finish:
        trigger = [hub.client.create(SERVICE_ACCOUNTS, SERVICE_ACCOUNTS.manifest(key)) for key in keys]
        result = await one.measured(wanted, trigger, finish)
    result.more.update(await _count(hub, set(keys)))
    return result


async def _prepare(hub: Cluster, namespaces: int) -> None:
    """Make what both systems look for: the registry, the signing key, the account of OpenShift's controllers."""
    registry = REGISTRY_SERVICES[-1]
    names = [registry.namespace, SIGNING_KEY_SECRET.namespace, OPENSHIFT_NAMESPACE, "openshift-controller-manager"]
    names += [f"ns{number:03}" for number in range(namespaces)]
    await bounded(hub.client.create(NAMESPACES, NAMESPACES.manifest(ObjectKey.cluster(name))) for name in names)
    await hub.client.create(SERVICES, SERVICES.manifest(registry, spec={"ports": [{"port": 5000}]}))
    public = (hub.plane.credentials.folder / "sa.pub").read_text()
    await hub.client.create(SECRETS, SECRETS.manifest(SIGNING_KEY_SECRET, stringData={SIGNING_KEY_FIELD: public}))
    group = f"system:serviceaccounts:{OPENSHIFT_NAMESPACE}"
    binding = a_cluster_role_binding("rig-infra", role="cluster-admin", groups=[group])
    await hub.client.create(CLUSTER_ROLE_BINDINGS, binding)


async def _count(hub: Cluster, accounts: set[ObjectKey]) -> dict[str, int]:
    secrets = (await hub.client.list(SECRETS, fields=OF_PULL_SECRETS)).items
    filled = {ObjectKey.of(secret) for secret in secrets if _is_filled(secret)}
    found = (await hub.client.list(SERVICE_ACCOUNTS)).items
    listed = [
        account
        for account in found
        if ObjectKey.of(account) in accounts
        and any(ObjectKey(account["metadata"]["namespace"], row["name"]) in filled for row in _pulls(account))
    ]
    return {"pull_secrets": len(secrets), "accounts_that_list_one": len(listed)}


def _pulls(account: Object) -> list[dict[str, str]]:
    return account.get("imagePullSecrets") or []


def _is_filled(secret: Object) -> bool:
    content = orjson.loads(base64.b64decode((secret.get("data") or {}).get(DOCKERCFG_KEY, "e30=")))
    return bool(content) and all(row.get("auth") for row in content.values())
