"""Columns of role bindings, certificate signing requests and admission policies."""

from __future__ import annotations

from datetime import datetime, timedelta

from watchword.api.meta import Object
from watchword.apiserver.duration import human_duration
from watchword.apiserver.kinds.columns.cells import AGE, NAME, Cell, at, size, text, wide
from watchword.apiserver.model import Column


def _role(binding: Object, _: datetime) -> str:
    return f"{at(binding, 'roleRef.kind') or ''}/{at(binding, 'roleRef.name') or ''}"


def _subjects(kind: str) -> Cell:
    def cell(binding: Object, _: datetime) -> str:
        chosen = [subject for subject in binding.get("subjects") or () if subject.get("kind") == kind]
        return ", ".join(_subject(subject) for subject in chosen)

    return cell


def _subject(subject: Object) -> str:
    name = str(subject.get("name") or "")
    if subject.get("kind") == "ServiceAccount" and subject.get("namespace"):
        return f"{subject['namespace']}/{name}"
    return name


BINDING = (
    NAME,
    Column("Role", _role),
    AGE,
    wide("Users", _subjects("User")),
    wide("Groups", _subjects("Group")),
    wide("ServiceAccounts", _subjects("ServiceAccount")),
)


def _requested_duration(csr: Object, _: datetime) -> str:
    seconds = at(csr, "spec.expirationSeconds")
    return "<none>" if seconds is None else human_duration(timedelta(seconds=seconds))


def _condition(csr: Object, _: datetime) -> str:
    types = {condition.get("type") for condition in at(csr, "status.conditions") or ()}
    shown = "Denied" if "Denied" in types else "Approved" if "Approved" in types else "Pending"
    if "Failed" in types:
        shown += ",Failed"
    if at(csr, "status.certificate"):
        shown += ",Issued"
    return shown


CERTIFICATE_SIGNING_REQUEST = (
    NAME,
    AGE,
    Column("SignerName", text("spec.signerName", "<none>")),
    Column("Requestor", text("spec.username")),
    Column("RequestedDuration", _requested_duration),
    Column("Condition", _condition),
)


def _param_kind(policy: Object, _: datetime) -> str:
    kind = at(policy, "spec.paramKind")
    return f"{kind.get('apiVersion') or ''}/{kind.get('kind') or ''}" if kind else "<unset>"


def _param_ref(binding: Object, _: datetime) -> str:
    ref = at(binding, "spec.paramRef") or {}
    return f"{ref.get('namespace') or '*'}/{ref['name']}" if ref.get("name") else "<unset>"


POLICY = (
    NAME,
    Column("Validations", size("spec.validations"), type="integer"),
    Column("ParamKind", _param_kind),
    AGE,
)
POLICY_BINDING = (NAME, Column("PolicyName", text("spec.policyName")), Column("ParamRef", _param_ref), AGE)
