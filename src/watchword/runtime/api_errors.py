"""Says in one sentence why the server refused an object, without repeating what the object holds."""

from collections.abc import Mapping
from typing import Any

from watchword.api.meta import ObjectRef
from watchword.kube.errors import ApiStatusError, BadRequest, Conflict, Invalid, KubeError, NotFound
from watchword.runtime.logs import redact_text
from watchword.runtime.write_transports import FIELD_CONFLICT

MAX_MESSAGE_LENGTH = 500
MAX_FIELDS = 8


def describe_api_error(error: KubeError, target: ObjectRef) -> str:
    """Return the sentence for a person.

    A server that finds fault with a value prints the value, and with a template the whole template, passwords
    included: of such refusals only the fields are told.
    """
    if not isinstance(error, ApiStatusError):
        return "the API server cannot be asked at present"
    if isinstance(error, Conflict):
        return describe_api_conflict(error, target)
    if isinstance(error, Invalid | BadRequest) or target.resource.group_resource == "secrets":
        fields = _fields(error)
        where = f" because of {fields}" if fields else ""
        return f"the server refuses {target}{where} ({error.reason or error.code}): correct the manifest"
    return f"the server refuses {target}: {redact_text(str(error))[:MAX_MESSAGE_LENGTH]}"


def describe_api_conflict(error: Conflict, target: ObjectRef) -> str:
    """Return the sentence for fields that another manager owns, or for an object that changes too fast."""
    if is_field_conflict(error):
        return f"{target} has fields that others manage ({_fields(error)}): leave them out, ignore them or use force"
    return f"{target} was changed by another client at the same moment"


def is_field_conflict(error: Conflict) -> bool:
    """Whether another manager owns a field; trying again would not help."""
    return any(cause.get("reason") == FIELD_CONFLICT for cause in _causes(error))


def is_kind_missing(error: KubeError) -> bool:
    """Whether the path itself is unknown, rather than the object or its namespace."""
    if not isinstance(error, NotFound):
        return False
    details = error.status.get("details")
    return not (isinstance(details, Mapping) and details.get("name"))


def _causes(error: ApiStatusError) -> list[Mapping[str, Any]]:
    details = error.status.get("details")
    causes = details.get("causes") if isinstance(details, Mapping) else None
    return [cause for cause in causes or () if isinstance(cause, Mapping)]


def _fields(error: ApiStatusError) -> str:
    fields = list(dict.fromkeys(str(cause["field"])[:80] for cause in _causes(error) if cause.get("field")))
    more = f" and {len(fields) - MAX_FIELDS} more" if len(fields) > MAX_FIELDS else ""
    return ", ".join(fields[:MAX_FIELDS]) + more
