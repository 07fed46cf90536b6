"""The admission steps in their order, as data."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from watchword.apiserver.admission.account_secrets import hold_to_own_accounts
from watchword.apiserver.admission.managed_clusters import ManagedClusterAdmission, default_cluster_set
from watchword.apiserver.admission.namespaces import protect_namespaces
from watchword.apiserver.admission.nodes import taint_new_nodes
from watchword.apiserver.admission.owner_references import deduplicate_owners
from watchword.apiserver.admission.service_accounts import ServiceAccountAdmission
from watchword.apiserver.authz.escalation import EscalationGuard
from watchword.apiserver.authz.rbac import RbacAuthorizer
from watchword.apiserver.csr.strategy import CertificateAdmission, ConditionTimes
from watchword.apiserver.model import Admit, Now, Registry


class AdmissionSteps(Struct, frozen=True):
    """What completes a write, and what may refuse it afterwards."""

    mutating: tuple[Admit, ...]
    validating: tuple[Admit, ...]


def admission_steps(
    registry: Registry, authorizer: RbacAuthorizer, *, now: Now, entropy: Callable[[int], bytes]
) -> AdmissionSteps:
    """Return the steps of a standard control plane."""
    return AdmissionSteps(
        mutating=(
            deduplicate_owners,
            taint_new_nodes,
            ServiceAccountAdmission(registry, entropy),
            ConditionTimes(now),
            default_cluster_set,
            # last among these: it checks the object that is about to be validated
            EscalationGuard(authorizer),
        ),
        validating=(
            protect_namespaces,
            CertificateAdmission(authorizer),
            ManagedClusterAdmission(authorizer),
            hold_to_own_accounts,
        ),
    )
