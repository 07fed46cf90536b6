"""Who requests a certificate: the user that the API server noted, or that the gRPC server noted for an agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from msgspec import Struct

from watchword.api.meta import Object, annotations_of
from watchword.api.names import GRPC_SERVER_SERVICE_ACCOUNT, HUB_NAMESPACE, Annotation, service_account_user

GRPC_SERVER_USER = service_account_user(HUB_NAMESPACE, GRPC_SERVER_SERVICE_ACCOUNT)


class Requester(Struct, frozen=True):
    """An authenticated user."""

    user: str
    groups: frozenset[str] = frozenset()
    is_direct: bool = True  # authenticated by the API server itself


def requester_of(csr: Object) -> Requester:
    """Return who requested a certificate.

    The annotations count only on requests of the gRPC server, which overwrites them with what it authenticated.
    """
    spec: Mapping[str, Any] = csr.get("spec") or {}
    user, groups = str(spec.get("username") or ""), frozenset(spec.get("groups") or ())
    if user != GRPC_SERVER_USER:
        return Requester(user, groups)
    noted = annotations_of(csr)
    return Requester(noted.get(Annotation.CSR_USER, ""), _read_groups(noted.get(Annotation.CSR_GROUPS, "")), False)


def _read_groups(text: str) -> frozenset[str]:
    try:
        groups = orjson.loads(text) if text else []
    except orjson.JSONDecodeError:
        return frozenset()
    return frozenset(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else frozenset()
