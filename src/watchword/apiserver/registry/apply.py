"""Server-side apply: the object becomes what all its managers together declare."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from watchword.api.meta import Object
from watchword.apiserver.bodies import decode_yaml, require_object
from watchword.apiserver.errors import bad_request, conflict
from watchword.apiserver.model import ApiError, ResourceKind
from watchword.apiserver.registry.body_identity import require_name, require_namespace, require_type
from watchword.apiserver.registry.create import Create
from watchword.apiserver.registry.pruning import prune_and_default
from watchword.apiserver.registry.update import Update, UpdateTarget
from watchword.apiserver.registry.write_request import VerbResult, WriteRequest

_STATUS = frozenset({"status"})


class Apply(Struct, frozen=True):
    """Applies configurations; an object that is not there is created."""

    create: Create
    update: Update

    async def __call__(self, target: UpdateTarget, body: bytes, call: WriteRequest) -> VerbResult:
        """Apply one configuration; 409 when it would take fields that other managers own."""
        config = _read(target, body)
        call = replace(call, applied=True)

        def revise(live: Object) -> Object:
            new = self._applied(target, live, config, call)
            said = (config["metadata"]).get("resourceVersion")
            new["metadata"]["resourceVersion"] = said or live["metadata"]["resourceVersion"]
            return new

        try:
            return await self.update.revise(target, revise, call)
        except ApiError as refusal:
            if refusal.reason != "NotFound" or target.subresource:
                raise
        call.may_create()
        _require_no_uid(target, config)
        new = self._applied(target, None, config, call)
        new["metadata"].pop("resourceVersion", None)
        return await self.create(target.kind, target.key.namespace, new, call)

    def _applied(self, target: UpdateTarget, live: Object | None, config: Object, call: WriteRequest) -> Object:
        from watchword.apiserver.fieldmanager.apply import apply

        kind = target.kind
        new = apply(
            live,
            config,
            kind.schema,
            manager=call.manager,
            force=call.force,
            now=self.update.tools.now(),
            subresource=target.subresource,
            reset=_reset(kind, target.subresource),
        )
        prune_and_default(kind, new, call)
        return new


def _read(target: UpdateTarget, body: bytes) -> Object:
    config = require_object(decode_yaml(body))
    if not config.get("apiVersion") or not config.get("kind"):
        group, _, version = str(config.get("apiVersion") or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config.get('kind') or ''}")
    if not target.kind.custom and config["apiVersion"] != target.kind.resource.api_version:
        group, _, version = str(config["apiVersion"]).rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={config['kind']}")
    require_type(target.kind, config)
    config["metadata"].setdefault("name", target.key.name)
    require_name(config, target.key)
    # What is not in the configuration must not be owned: the namespace is checked on a copy.
    require_namespace(target.kind, {"metadata": dict(config["metadata"])}, target.key.namespace)
    return config


def _require_no_uid(target: UpdateTarget, config: Object) -> None:
    """Refuse to create an object that must exist according to the configuration."""
    uid = config["metadata"].get("uid")
    if uid:
        detail = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise conflict(target.kind.resource, target.key.name, detail)


def _reset(kind: ResourceKind, subresource: str) -> frozenset[str]:
    return _STATUS if not subresource and "status" in kind.subresources else frozenset()
