"""The core group as data: namespaces, secrets, accounts, events."""

from __future__ import annotations

from msgspec.structs import replace

from watchword.api.resources import CONFIG_MAPS, CORE_EVENTS, EVENTS, NAMESPACES, SECRETS, SERVICE_ACCOUNTS
from watchword.apiserver.kinds import events
from watchword.apiserver.kinds.build import KindStrategy, builtin, fields
from watchword.apiserver.kinds.columns import core
from watchword.apiserver.kinds.config import default_secret, validate_config_map, validate_secret
from watchword.apiserver.kinds.names import dns_label
from watchword.apiserver.kinds.namespaces import (
    default_namespace,
    prepare_namespace,
    prepare_service_account,
    validate_namespace,
)
from watchword.apiserver.model import ResourceKind

_REFERENCE = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_EVENT_FIELDS = {
    **fields(*(f"involvedObject.{name}" for name in _REFERENCE), "reason", "reportingComponent", "type"),
    "source": events.source,
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
        columns=core.NAMESPACE,
        short_names=("ns",),
        verbs=("create", "delete", "get", "list", "patch", "update", "watch"),
        subresources=("finalize", "status"),
        unconditional_update=True,
        returns_deleted_object=True,
    ),
    builtin(
        SECRETS,
        KindStrategy(default=(default_secret,), validate=(validate_secret,), fields=fields("type")),
        columns=core.SECRET,
        unconditional_update=True,
    ),
    builtin(
        CONFIG_MAPS,
        KindStrategy(validate=(validate_config_map,)),
        columns=core.CONFIG_MAP,
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
        KindStrategy(validate=(events.validate_event,), fields=_EVENT_FIELDS),
        columns=core.EVENT,
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
    ),
    builtin(
        EVENTS,
        KindStrategy(validate=(events.validate_event,), fields=_MODERN_EVENT_FIELDS),
        columns=tuple(replace(column, cell=events.on_core(column.cell)) for column in core.EVENT),
        short_names=("ev",),
        unconditional_update=True,
        create_on_update=True,
        stored_as=CORE_EVENTS,
        to_stored=events.to_core,
        from_stored=events.from_core,
    ),
)
