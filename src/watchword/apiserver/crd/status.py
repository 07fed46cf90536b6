"""Decides the conditions of a definition: its names, whether it is served, whether it is being deleted."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final

from watchword.api.conditions import Condition
from watchword.api.meta import Object, annotations_of
from watchword.api.time import rfc3339
from watchword.apiserver.crd.definition import API_APPROVED, objects, spec_of, status_of, text
from watchword.apiserver.crd.names import decide_names, is_established

ESTABLISHED: Final = Condition("Established", "True", "InitialNamesAccepted", "the initial names have been accepted")
NOT_ACCEPTED: Final = Condition("Established", "False", "NotAccepted", "not all names are accepted")
PENDING: Final = Condition(
    "Terminating",
    "True",
    "InstanceDeletionPending",
    "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
)
DELETING: Final = Condition(
    "Terminating", "True", "InstanceDeletionInProgress", "CustomResource deletion is in progress"
)
DELETED: Final = Condition("Terminating", "False", "InstanceDeletionCompleted", "removed all instances")


def decide_status(definition: Object, others: Iterable[Object], now: datetime) -> Object:
    """Return the status that a definition should have; `others` are those of its group."""
    verdict = decide_names(definition, others)
    wanted = [verdict.condition]
    if verdict.condition.status == "True" or is_established(definition):
        wanted.append(ESTABLISHED)
    else:
        wanted.append(NOT_ACCEPTED)
    approval = decide_api_approval(definition)
    if approval is not None:
        wanted.append(approval)
    status = {**status_of(definition), "acceptedNames": {"plural": "", "kind": "", **verdict.accepted}}
    return with_conditions(status, wanted, now)


def decide_api_approval(definition: Object) -> Condition | None:
    """Return whether a group of the Kubernetes community is used with its consent; None for other groups."""
    group, said = text(spec_of(definition), "group"), annotations_of(definition).get(API_APPROVED) or ""
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return None
    name = "KubernetesAPIApprovalPolicyConformant"
    if not said:
        return Condition(name, "False", "MissingAnnotation", f'the annotation "{API_APPROVED}" is missing')
    if said.startswith("unapproved"):
        return Condition(name, "False", "UnapprovedAnnotation", f'not approved: "{said}"')
    return Condition(name, "True", "ApprovedAnnotation", f"approved in {said}")


def with_conditions(status: Object, wanted: Iterable[Condition], now: datetime) -> Object:
    """Return a status with these conditions; an instant changes only with what it is the instant of."""
    rows = {text(row, "type"): row for row in objects(status, "conditions")}
    for condition in wanted:
        row = {
            "type": condition.type,
            "status": condition.status,
            "lastTransitionTime": rfc3339(now),
            "reason": condition.reason,
            "message": condition.message,
        }
        known = rows.get(condition.type)
        if known is not None and known.get("status") == condition.status and known.get("lastTransitionTime"):
            row["lastTransitionTime"] = known["lastTransitionTime"]
        rows[condition.type] = row
    return {**status, "conditions": list(rows.values())}
