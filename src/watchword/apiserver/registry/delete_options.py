"""Reads the options of a deletion, from the body or else from the query."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver.bodies import decode, media_type
from watchword.apiserver.errors import bad_request, invalid_kind
from watchword.apiserver.field_errors import invalid, not_supported
from watchword.apiserver.model import FieldError, HandlerRequest
from watchword.apiserver.registry.body_identity import unregistered
from watchword.apiserver.registry.options import parse_bool, parse_dry_run, parse_integer

POLICIES = ("Orphan", "Background", "Foreground")


class DeleteOptions(Struct, frozen=True):
    """Preconditions, grace and what becomes of dependents."""

    grace_seconds: int | None = None
    uid: str = ""
    resource_version: str = ""
    propagation: str = ""
    dry_run: bool = False


def read_delete_options(request: HandlerRequest) -> DeleteOptions:
    """Read the options; the body wins over the query, as upstream has it."""
    if request.body:
        said = decode(request.body, media_type(request.header("content-type")))
        if str(said.get("kind") or "") not in {"", "DeleteOptions"}:
            raise bad_request(unregistered(str(said.get("apiVersion") or ""), str(said["kind"])))
    else:
        said = _from_query(request)
    return validate_delete_options(said)


def validate_delete_options(said: Object) -> DeleteOptions:
    """Check options; 422 with every problem found."""
    errors: list[FieldError] = []
    policy, orphan = said.get("propagationPolicy"), said.get("orphanDependents")
    if policy is not None and orphan is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        errors.append(invalid("propagationPolicy", policy, detail))
    if policy is not None and str(policy) not in POLICIES:
        errors.append(not_supported("propagationPolicy", policy, ("Foreground", "Background", "Orphan", "nil")))
    dry_run = parse_dry_run(said.get("dryRun"), errors)
    if errors:
        raise invalid_kind("meta.k8s.io", "DeleteOptions", "", errors)
    if policy is None and orphan is not None:
        policy = "Orphan" if orphan else "Background"
    preconditions = said.get("preconditions") or {}
    if not isinstance(preconditions, dict):
        raise bad_request("preconditions must be an object")
    return DeleteOptions(
        grace_seconds=_grace(said.get("gracePeriodSeconds")),
        uid=str(preconditions.get("uid") or ""),
        resource_version=str(preconditions.get("resourceVersion") or ""),
        propagation=policy or "",
        dry_run=dry_run,
    )


def _grace(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise bad_request("gracePeriodSeconds must be an integer")
    return 1 if value < 0 else value


def _from_query(request: HandlerRequest) -> Object:
    said: Object = {}
    if grace := request.parameter("gracePeriodSeconds"):
        said["gracePeriodSeconds"] = parse_integer(grace)
    if policy := request.parameter("propagationPolicy"):
        said["propagationPolicy"] = policy
    if orphan := request.parameter("orphanDependents"):
        said["orphanDependents"] = parse_bool(orphan)
    dry_run = [value for name, value in request.query if name == "dryRun"]
    if dry_run:
        said["dryRun"] = dry_run
    return said
