"""The IAM and the STS of moto: answers requests, and tells what roles there are."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

from moto.iam.models import IAMBackend, Role, iam_backends
from moto.moto_api._internal.models import moto_api_backend
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from msgspec import Struct, field
from werkzeug.test import Client

from watchword.api.http import Request, Response

ACCOUNT_HEADER = "x-moto-account-id"


class StoredRole(Struct, frozen=True):
    """A role as IAM has it."""

    arn: str
    id: str
    created_at: datetime
    trust: Any
    access: list[Any]  # the policies that say what it may do
    tags: dict[str, str]


class IamStore(Struct, frozen=True):
    """Passes requests on to moto, whose state is one for a process: it is emptied when the store is made."""

    client: Client = field(default_factory=lambda: Client(DomainDispatcherApplication(create_backend_app)))

    def __post_init__(self) -> None:
        moto_api_backend.reset()

    def answer(self, request: Request, account: str) -> Response:
        """Return the response of moto to a request that was authorised here."""
        headers = [(name, value) for name, value in request.headers if name.lower() != "content-length"]
        found = self.client.open(
            request.path,
            method=request.method,
            headers=[*headers, (ACCOUNT_HEADER, account)],
            query_string=dict(request.query),
            data=request.body,
        )
        return Response(found.status_code, (("Content-Type", found.content_type),), found.data)

    def find_role(self, arn: str) -> StoredRole | None:
        """Return the role of an ARN, None when there is none."""
        parts = arn.split(":")
        if len(parts) != 6 or parts[2] != "iam" or not parts[5].startswith("role/"):
            return None
        backend: IAMBackend = iam_backends[parts[4]][parts[1]]
        found = next((role for role in backend.roles.values() if role.arn == arn), None)
        return None if found is None else _stored(found)


def _stored(role: Role) -> StoredRole:
    versions = [version for policy in role.managed_policies.values() for version in policy.versions]
    attached = [version.document for version in versions if version.is_default]
    return StoredRole(
        role.arn,
        role.id,
        role.create_date.replace(tzinfo=UTC),
        _document(role.assume_role_policy_document),
        [_document(text) for text in (*role.policies.values(), *attached)],
        {tag["Key"]: tag["Value"] for tag in role.tags or []},
    )


def _document(value: Any) -> Any:
    return json.loads(unquote(value)) if isinstance(value, str) else value
