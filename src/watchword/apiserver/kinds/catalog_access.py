"""Access as data: roles, bindings, certificates, leases, policies and the questions that are not stored."""

from __future__ import annotations

from watchword.api.lazy_function import LazyFunction
from watchword.api.meta import Resource
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    ROLE_BINDINGS,
    ROLES,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.apiserver.authz.validation import default_binding, prepare_role, validate_binding, validate_role
from watchword.apiserver.kinds.build import KindStrategy, builtin, fields, separate_status
from watchword.apiserver.kinds.columns import access, core
from watchword.apiserver.kinds.columns.cells import DATED
from watchword.apiserver.kinds.leases import validate_lease
from watchword.apiserver.kinds.names import any_name, path_segment
from watchword.apiserver.kinds.reviews import REVIEWS
from watchword.apiserver.model import ResourceKind

_ROLE = KindStrategy(name=path_segment, prepare=(prepare_role,), validate=(validate_role,))
_BINDING = KindStrategy(name=path_segment, prepare=(default_binding,), validate=(validate_binding,))
_CRD_HOOKS = "watchword.apiserver.crd.strategy"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _rbac(resource: Resource, rules: KindStrategy) -> ResourceKind:
    columns = DATED if rules is _ROLE else access.BINDING
    return builtin(resource, rules, columns=columns, verbs=_VERBS, unconditional_update=True, create_on_update=True)


ACCESS: tuple[ResourceKind, ...] = (
    _rbac(ROLES, _ROLE),
    _rbac(CLUSTER_ROLES, _ROLE),
    _rbac(ROLE_BINDINGS, _BINDING),
    _rbac(CLUSTER_ROLE_BINDINGS, _BINDING),
    builtin(LEASES, KindStrategy(validate=(validate_lease,)), columns=core.LEASE, create_on_update=True),
    builtin(
        CERTIFICATE_SIGNING_REQUESTS,
        KindStrategy(
            name=any_name,
            fields=fields("spec.signerName"),
            prepare=(LazyFunction("watchword.apiserver.csr.strategy", "prepare_signing_request"),),
            validate=(LazyFunction("watchword.apiserver.csr.validation", "validate_signing_request"),),
        ),
        columns=access.CERTIFICATE_SIGNING_REQUEST,
        short_names=("csr",),
        subresources=("approval", "status"),
        unconditional_update=True,
        has_owners=False,
    ),
    builtin(
        CUSTOM_RESOURCE_DEFINITIONS,
        KindStrategy(
            default=(LazyFunction(_CRD_HOOKS, "default_definition"),),
            prepare=(LazyFunction(_CRD_HOOKS, "prepare_definition"),),
            validate=(LazyFunction(_CRD_HOOKS, "validate_definition"),),
        ),
        columns=DATED,
        begin_deletion=LazyFunction(_CRD_HOOKS, "mark_terminating"),
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        VALIDATING_ADMISSION_POLICIES,
        KindStrategy(prepare=(separate_status(VALIDATING_ADMISSION_POLICIES),)),
        columns=access.POLICY,
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        VALIDATING_ADMISSION_POLICY_BINDINGS,
        columns=access.POLICY_BINDING,
        categories=("api-extensions",),
        has_generation=True,
    ),
    *REVIEWS,
)
