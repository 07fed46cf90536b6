"""The core group as data: namespaces, secrets, accounts, events."""

from __future__ import annotations

from msgspec.structs import replace

from watchword.api.meta import Resource
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CORE_EVENTS,
    CUSTOM_RESOURCE_DEFINITIONS,
    EVENTS,
    LEASES,
    NAMESPACES,
    ROLE_BINDINGS,
    ROLES,
    SECRETS,
    SERVICE_ACCOUNTS,
    VALIDATING_ADMISSION_POLICIES,
    VALIDATING_ADMISSION_POLICY_BINDINGS,
)
from watchword.apiserver.authz.validation import default_binding, prepare_role, validate_binding, validate_role
from watchword.apiserver.kinds.build import REVIEWS, KindStrategy, LazyFunction, builtin, fields, separate_status
from watchword.apiserver.kinds.columns import core as columns
from watchword.apiserver.kinds.columns.cells import DATED
from watchword.apiserver.kinds.core import (
    default_namespace,
    default_secret,
    from_core,
    on_core,
    prepare_namespace,
    prepare_service_account,
    source,
    to_core,
    validate_config_map,
    validate_event,
    validate_lease,
    validate_namespace,
    validate_secret,
)
from watchword.apiserver.kinds.names import any_name, dns_label, path_segment
from watchword.apiserver.model import ResourceKind

_ROLE = KindStrategy(name=path_segment, prepare=(prepare_role,), validate=(validate_role,))
_BINDING = KindStrategy(name=path_segment, prepare=(default_binding,), validate=(validate_binding,))
_CRD_HOOKS = "watchword.apiserver.crd.strategy"
_POLICY_HOOKS = "watchword.apiserver.admission.policy_validation"
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def _rbac(resource: Resource, rules: KindStrategy) -> ResourceKind:
    shown = DATED if rules is _ROLE else columns.BINDING
    return builtin(resource, rules, columns=shown, verbs=_VERBS, unconditional_update=True, create_on_update=True)


ACCESS: tuple[ResourceKind, ...] = (
    _rbac(ROLES, _ROLE),
    _rbac(CLUSTER_ROLES, _ROLE),
    _rbac(ROLE_BINDINGS, _BINDING),
    _rbac(CLUSTER_ROLE_BINDINGS, _BINDING),
    builtin(LEASES, KindStrategy(validate=(validate_lease,)), columns=columns.LEASE, create_on_update=True),
    builtin(
        CERTIFICATE_SIGNING_REQUESTS,
        KindStrategy(
            name=any_name,
            fields=fields("spec.signerName"),
            prepare=(LazyFunction("watchword.apiserver.csr.strategy", "prepare_signing_request"),),
            validate=(LazyFunction("watchword.apiserver.csr.validation", "validate_signing_request"),),
        ),
        columns=columns.CERTIFICATE_SIGNING_REQUEST,
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
        KindStrategy(
            default=(LazyFunction(_POLICY_HOOKS, "default_policy"),),
            prepare=(separate_status(VALIDATING_ADMISSION_POLICIES),),
            validate=(LazyFunction(_POLICY_HOOKS, "validate_policy"),),
        ),
        columns=columns.POLICY,
        categories=("api-extensions",),
        subresources=("status",),
        has_generation=True,
    ),
    builtin(
        VALIDATING_ADMISSION_POLICY_BINDINGS,
        KindStrategy(
            default=(LazyFunction(_POLICY_HOOKS, "default_policy_binding"),),
            validate=(LazyFunction(_POLICY_HOOKS, "validate_policy_binding"),),
        ),
        columns=columns.POLICY_BINDING,
        categories=("api-extensions",),
        has_generation=True,
    ),
    *REVIEWS,
)


_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **fields(*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "type"),
    "source": source,
}
_MODERN_EVENT_FIELDS = fields(*(f"regarding.{name}" for name in _REFERENCE), "reason", "reportingController", "type")

CORE: tuple[ResourceKind, ...] = (
    builtin(
        NAMESPACES,
        KindStrategy(
            name=dns_label,
            default=(default_namespace,),
            prepare=(prepare_namespace,),
            validate=(validate_namespace,),
            fields=fields("status.phase"),
        ),
        columns=columns.NAMESPACE,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=("finalize", "status"),
        unconditional_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        SECRETS,
        KindStrategy(default=(default_secret,), validate=(validate_secret,), fields=fields("type")),
        columns=columns.SECRET,
        unconditional_update=True,
    ),
    builtin(
        CONFIG_MAPS,
        KindStrategy(validate=(validate_config_map,)),
        columns=columns.CONFIG_MAP,
        short_names=("cm",),
        unconditional_update=True,
    ),
    builtin(
        SERVICE_ACCOUNTS,
        KindStrategy(prepare=(prepare_service_account,)),
        short_names=("sa",),
        subresources=("token",),
        unconditional_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        CORE_EVENTS,
        KindStrategy(validate=(validate_event,), fields=_EVENT_FIELDS),
        columns=columns.EVENT,
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        EVENTS,
        KindStrategy(validate=(validate_event,), fields=_MODERN_EVENT_FIELDS),
        columns=tuple(replace(column, cell=on_core(column.cell)) for column in columns.EVENT),
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
        stored_as=CORE_EVENTS,
        to_stored=to_core,
        from_stored=from_core,
    ),
)
