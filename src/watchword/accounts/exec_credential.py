"""A token as an exec credential plugin prints it: with its expiry, so that clients ask again in time."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson

from watchword.accounts.tokens import AccountsError
from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339

EXEC_INFO = "KUBERNETES_EXEC_INFO"
VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")


def exec_credential(token: Sensitive[str], expires_at: datetime | None, version: str = VERSIONS[0]) -> Object:
    """Return the ExecCredential of a token; the token is in it."""
    status: Object = {"token": token.reveal()}
    if expires_at is not None:
        status["expirationTimestamp"] = rfc3339(expires_at)
    return {"apiVersion": version, "kind": "ExecCredential", "status": status}


def read_exec_info(environment: Mapping[str, str]) -> tuple[str, str]:
    """Return the version that the client speaks, and the cluster that it names; empty when it names none."""
    text = environment.get(EXEC_INFO) or "{}"
    try:
        info: Any = orjson.loads(text)
    except orjson.JSONDecodeError as cause:
        raise AccountsError(f"{EXEC_INFO} is not JSON: the plugin is to be run by a Kubernetes client") from cause
    info = info if isinstance(info, dict) else {}
    version = str(info.get("apiVersion") or VERSIONS[0])
    if version not in VERSIONS:
        raise AccountsError(f"the client speaks {version[:80]!r}: configure one of {', '.join(VERSIONS)}")
    cluster = (info.get("spec") or {}).get("cluster") or {}
    config = cluster.get("config") if isinstance(cluster, dict) else None
    return version, str(config.get("clusterName") or "") if isinstance(config, dict) else ""
