"""The audit log: one line per request with user, verb, object and outcome, never its content."""

import errno
import logging
import os
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from urllib.parse import urlencode

import orjson

from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.resources import EVENTS, NAMESPACES
from watchword.api.time import rfc3339_micro
from watchword.apiserver.background import TaskStatus
from watchword.apiserver.serving.model import HandlerRequest, Now, Registry, user_info
from watchword.apiserver.serving.server import CompletedRequest
from watchword.apiserver.store.snapshot import NewEpoch

log = logging.getLogger(__name__)

MAX_BYTES = 100 * 1024 * 1024
audit = logging.getLogger("watchword.audit")
REPORTER = "kube-apiserver"


class AuditLog:
    """Appends events of level Metadata in Kubernetes' own format; one older file is kept.

    An event that cannot be written is lost, which `status` shows: a full disk must not end the API.
    """

    def __init__(self, path: Path, now: Now, *, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._now = now
        self._max_bytes = max_bytes
        self._descriptor = _open(path)
        self._size = os.fstat(self._descriptor).st_size
        self.status = TaskStatus()

    def __call__(self, exchange: CompletedRequest) -> None:
        self.status.runs += 1
        line = orjson.dumps(audit_event(exchange, rfc3339_micro(self._now())), option=orjson.OPT_APPEND_NEWLINE)
        try:
            if self._size + len(line) > self._max_bytes:
                self._rotate()
            written = os.write(self._descriptor, line)
            if written < len(line):  # the next line would continue the half one
                os.ftruncate(self._descriptor, os.fstat(self._descriptor).st_size - written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            if self.status.is_healthy:
                log.error("cannot write the audit log %s: %s: events are lost", self._path, error.strerror)  # noqa: TRY400 - the cause is said
            self.status.failures += 1
            self.status.failed_in_a_row += 1
        else:
            self._size += len(line)
            self.status.failed_in_a_row = 0

    def close(self) -> None:
        os.close(self._descriptor)

    def _rotate(self) -> None:
        self._path.replace(self._path.with_name(f"{self._path.name}.1"))
        fresh = _open(self._path)
        os.close(self._descriptor)
        self._descriptor, self._size = fresh, 0


def audit_event(exchange: CompletedRequest, now: str) -> Object:
    """Return the event of one exchange; it holds no bodies and no credentials."""
    request = exchange.request
    event: Object = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": exchange.audit_id,
        "stage": "ResponseComplete" if exchange.response.stream is None else "ResponseStarted",
        "requestURI": request.info.path + (f"?{urlencode(request.query)}" if request.query else ""),
        "verb": request.info.verb,
        "user": user_info(exchange.authenticated or request.user),
        "sourceIPs": [request.peer.address] if request.peer.address else [],
        "userAgent": request.header("user-agent"),
        "responseStatus": {"metadata": {}, "code": exchange.response.status},
        "requestReceivedTimestamp": rfc3339_micro(exchange.received),
        "stageTimestamp": now,
    }
    if exchange.authenticated is not None and exchange.authenticated != request.user:
        event["impersonatedUser"] = user_info(request.user)
    if request.info.is_resource:
        event["objectRef"] = _reference(request)
    if request.annotations:
        event["annotations"] = dict(request.annotations)
    return event


def _reference(request: HandlerRequest) -> Object:
    info = request.info
    fields = {
        "resource": info.resource,
        "namespace": info.namespace,
        "name": info.name,
        "apiGroup": info.group,
        "apiVersion": info.version,
        "subresource": info.subresource,
    }
    return {name: value for name, value in fields.items() if value}


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


async def record_event(registry: Registry, now: datetime, epoch: NewEpoch) -> None:
    """Store an Event about the control plane, which is shown at the namespace `default`."""
    key = ObjectKey.cluster("default")
    obj = registry.get(NAMESPACES, key) or NAMESPACES.manifest(key)
    event = EVENTS.manifest(
        ObjectKey("default", f"default.{token_hex(8)}"),
        eventTime=rfc3339_micro(now),
        type=epoch.type,
        reason=epoch.reason,
        action=epoch.reason,
        note=epoch.note,
        regarding={"apiVersion": "v1", "kind": "Namespace", "name": "default", "uid": uid_of(obj)},
        reportingController=REPORTER,
        reportingInstance=REPORTER,
    )
    await registry.create(EVENTS, event)
    audit.warning("decision: %s about Namespace default: %s", epoch.reason, epoch.note)
