"""Bootstrap tokens are created → cluster-info carries a signature of each; then tokens expire → they are gone."""

from __future__ import annotations

import base64
import statistics
import time
from datetime import UTC, datetime, timedelta
from random import Random

import yaml

from bench.rig.finish import FinishLine
from bench.rig.result import Result
from bench.rig.run import Cluster, Run, bounded
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS
from watchword.api.time import rfc3339
from watchword.testing.builders import a_config_map, a_secret

PARAMETERS = {"n": 500, "expiring": 100, "life": 20, "settle": 120}
TOKEN_TYPE = "bootstrap.kubernetes.io/token"
CLUSTER_INFO = ObjectKey("kube-public", "cluster-info")
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"


async def run(one: Run) -> Result:
    """Measure the signing, then how late expired tokens are deleted."""
    hub = await one.cluster("hub")
    one.launch_all()
    await _publish(hub)
    await one.quiet()
    random = Random(7)
    tokens = [_token(random) for _ in range(one.parameters["n"])]

    def is_done(_: str, found: Object) -> bool:
        signatures = [name for name in found.get("data") or {} if name.startswith("jws-kubeconfig-")]
        return len(signatures) >= len(tokens)

    scope = {"namespace": CLUSTER_INFO.namespace, "fields": f"metadata.name={CLUSTER_INFO.name}"}
    async with FinishLine(hub.client, CONFIG_MAPS, is_done, **scope) as finish:
        result = await one.measured(len(tokens), [hub.client.create(SECRETS, token) for token in tokens], finish)
        result.more["cluster_info_writes"] = finish.events - 1
    result.more["expiry_to_deletion_seconds"] = await _expire(one, hub, random)
    return result


async def _publish(hub: Cluster) -> None:
    """Write cluster-info, and the cluster's CA where its own controllers would publish it."""
    ca = {"ca.crt": hub.plane.credentials.ca_pem.decode()}
    for namespace in ("kube-public", "kube-system"):
        await hub.client.create(CONFIG_MAPS, a_config_map("kube-root-ca.crt", namespace=namespace, data=ca))
    info = {"kubeconfig": _cluster_info(hub)}
    await hub.client.create(CONFIG_MAPS, a_config_map(CLUSTER_INFO.name, namespace=CLUSTER_INFO.namespace, data=info))


async def _expire(one: Run, hub: Cluster, random: Random) -> Object:
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=one.parameters["life"])
    tokens = [_token(random, ends) for _ in range(one.parameters["expiring"])]
    names = {token["metadata"]["name"] for token in tokens}
    late: list[float] = []

    def is_done(event: str, secret: Object) -> bool:
        if event == "DELETED" and secret["metadata"]["name"] in names:
            late.append(time.time() - ends.timestamp())
        return len(late) == len(names)

    async with FinishLine(hub.client, SECRETS, is_done, namespace="kube-system") as finish:
        await bounded(hub.client.create(SECRETS, token) for token in tokens)
        await finish.crossed(one.parameters["life"] + 200.0)
    return {"first": min(late), "median": statistics.median(late), "last": max(late)}


def _token(random: Random, ends: datetime | None = None) -> Object:
    token_id, secret = ("".join(random.choices(LETTERS, k=length)) for length in (6, 16))
    data = {
        "token-id": token_id,
        "token-secret": secret,
        "usage-bootstrap-signing": "true",
        "usage-bootstrap-authentication": "true",
        **({"expiration": rfc3339(ends)} if ends is not None else {}),
    }
    return a_secret(f"bootstrap-token-{token_id}", namespace="kube-system", data=data, kind=TOKEN_TYPE)


def _cluster_info(hub: Cluster) -> str:
    """Return what is signed: a kubeconfig with one unnamed cluster and nothing else."""
    ca = base64.b64encode(hub.plane.credentials.ca_pem).decode()
    cluster = {"server": hub.plane.server, "certificate-authority-data": ca}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Config", "clusters": [{"name": "", "cluster": cluster}]})
