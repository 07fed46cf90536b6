"""Says in one sentence why the server refused an object, without repeating what the object holds."""

from watchword.api.meta import ObjectRef, mapping_at
from watchword.kube.errors import ApiStatusError, BadRequest, Conflict, Invalid, KubeError, NotFound, causes_of
from watchword.runtime.logs import redact_text
from watchword.runtime.write_transports import FIELD_CONFLICT

MAX_MESSAGE_LENGTH = 500
MAX_FIELDS = 8


def describe_api_error(error: KubeError, target: ObjectRef) -> str:
    """Return why the server refused an object, in one sentence.

    Of invalid values it names the fields alone: the server's message contains the values, and passwords in them.
    """
    if not isinstance(error, ApiStatusError):
        return "the API server cannot be asked at present"
    if isinstance(error, Conflict):
        if not is_field_conflict(error):
            return f"{target} was changed by another client at the same moment"
        return f"{target} has fields that others manage ({_fields(error)}): leave them out, ignore them or use force"
    if isinstance(error, Invalid | BadRequest) or target.resource.group_resource == "secrets":
        fields = _fields(error)
        where = f" because of {fields}" if fields else ""
        return f"the server refuses {target}{where} ({error.reason or error.code}): correct the manifest"
    return f"the server refuses {target}: {redact_text(str(error))[:MAX_MESSAGE_LENGTH]}"


def is_field_conflict(error: Conflict) -> bool:
    """Whether another manager owns a field; trying again would not help."""
    return any(cause.get("reason") == FIELD_CONFLICT for cause in causes_of(error))


def is_kind_missing(error: KubeError) -> bool:
    """Whether the path itself is unknown, rather than the object or its namespace."""
    return isinstance(error, NotFound) and not mapping_at(error.status, "details").get("name")


def _fields(error: ApiStatusError) -> str:
    fields = list(dict.fromkeys(str(cause["field"])[:80] for cause in causes_of(error) if cause.get("field")))
    more = f" and {len(fields) - MAX_FIELDS} more" if len(fields) > MAX_FIELDS else ""
    return ", ".join(fields[:MAX_FIELDS]) + more
