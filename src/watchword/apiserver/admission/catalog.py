"""The admission steps in their order, and those that are a few lines."""

from collections.abc import Callable

from msgspec import Struct

from watchword.api.meta import Object
from watchword.apiserver import errors
from watchword.apiserver.admission.service_accounts import ServiceAccountAdmission
from watchword.apiserver.authz.escalation import EscalationGuard
from watchword.apiserver.authz.rbac import RbacAuthorizer
from watchword.apiserver.csr.strategy import CertificateAdmission, ConditionTimes
from watchword.apiserver.model import Admit, Now, Operation, Registry

PROTECTED_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
NOT_READY = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}


class AdmissionSteps(Struct, frozen=True):
    """What completes a write, and what may refuse it afterwards."""

    mutating: tuple[Admit, ...]
    validating: tuple[Admit, ...]


def admission_steps(
    registry: Registry, authorizer: RbacAuthorizer, policies: Admit, *, now: Now, entropy: Callable[[int], bytes]
) -> AdmissionSteps:
    return AdmissionSteps(
        mutating=(
            deduplicate_owners,
            taint_new_nodes,
            ServiceAccountAdmission(registry, entropy),
            ConditionTimes(now),
            # last among these: it checks the object that is about to be validated
            EscalationGuard(authorizer),
        ),
        validating=(
            protect_namespaces,
            CertificateAdmission(authorizer),
            policies,
        ),
    )


async def protect_namespaces(operation: Operation) -> None:
    """Refuse to delete a namespace that must always exist; existence of others is the registry's business."""
    resource = operation.kind.resource
    if operation.verb != "delete" or resource.group or resource.plural != "namespaces" or operation.subresource:
        return
    if operation.key.name in PROTECTED_NAMESPACES:
        raise errors.forbidden(resource, operation.key.name, "this namespace may not be deleted")


async def taint_new_nodes(operation: Operation) -> None:
    kind = operation.kind.resource
    if operation.old is not None or operation.new is None or (kind.group, kind.kind) != ("", "Node"):
        return
    spec = operation.new.setdefault("spec", {})
    taints = spec.get("taints") or []
    if not any(taint.get("key") == NOT_READY["key"] and taint.get("effect") == "NoSchedule" for taint in taints):
        spec["taints"] = [*taints, dict(NOT_READY)]


async def deduplicate_owners(operation: Operation) -> None:
    if operation.new is None:
        return
    metadata = operation.new.get("metadata") or {}
    refs: list[Object] = metadata.get("ownerReferences") or []
    if len(refs) < 2:
        return
    kept: list[Object] = []
    for ref in refs:
        if ref not in kept:
            kept.append(ref)
    if len(kept) == len(refs):
        return
    repeated = sorted({str(ref.get("uid")) for ref in kept if refs.count(ref) > 1})
    metadata["ownerReferences"] = kept
    operation.warnings.append(
        ".metadata.ownerReferences contains duplicate entries; API server dedups owner references in 1.20+, "
        "and may reject such requests as early as 1.24; please fix your requests; "
        f"duplicate UID(s) observed: {', '.join(repeated)}"
    )
