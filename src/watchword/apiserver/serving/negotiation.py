"""Negotiates the format of the response with the client."""

from typing import Any

import orjson
from msgspec import Struct

from watchword.api.http import Response
from watchword.apiserver.serving.errors import no_representation, not_acceptable, status_object
from watchword.apiserver.serving.model import ApiError, HandlerRequest

JSON = "application/json"
YAML = "application/yaml"
ANSWERS = (JSON, YAML, "application/vnd.kubernetes.protobuf")
NOT_FOUND = Response(
    404, (("Content-Type", "text/plain; charset=utf-8"), ("X-Content-Type-Options", "nosniff")), b"404 page not found\n"
)
_MEDIA = {JSON: JSON, "*/*": JSON, "application/*": JSON, YAML: YAML, "text/yaml": YAML}
_META_VERSIONS = {("meta.k8s.io", "v1"), ("meta.k8s.io", "v1beta1")}
_TRANSFORMS = frozenset({"Table", "PartialObjectMetadata", "PartialObjectMetadataList"})


class Media(Struct, frozen=True):
    """The format of a response: encoding, and what the object is converted to."""

    type: str = JSON
    transform: str = ""  # Table, PartialObjectMetadata, PartialObjectMetadataList
    version: str = "v1"  # of meta.k8s.io, for a transform
    pretty: bool = False

    @property
    def plain(self) -> bool:
        return not self.transform and not self.pretty and self.type == JSON


_PLAIN = Media()


def choose_media(request: HandlerRequest, *, transforms: bool = True) -> Media:
    """Return the first form in the Accept header that can be served; 406 when there is none."""
    accept = request.header("accept")
    pretty = _wants_pretty(request)
    if accept in {"", JSON, "*/*"}:
        return Media(pretty=True) if pretty else _PLAIN
    clauses = accept.split(",")
    for clause in clauses:
        media = _parse_clause(clause, pretty=pretty, transforms=transforms)
        if media is not None:
            return media
    if any(clause.partition(";")[0].strip().lower() in {*ANSWERS, "*/*", "application/*"} for clause in clauses):
        raise not_acceptable(ANSWERS)
    raise no_representation(ANSWERS)


def object_response(
    request: HandlerRequest, obj: Any, status: int = 200, warnings: list[str] | None = None
) -> Response:
    """Return an object in the requested format; handlers of subresources respond with this."""
    return encoded_response(choose_media(request, transforms=False), obj, status, warning_headers(warnings or ()))


def error_response(request: HandlerRequest | None, error: ApiError) -> Response:
    status = status_object(error)
    if error.continue_token:
        status["metadata"] = {"continue": error.continue_token}
    seconds = (error.details or {}).get("retryAfterSeconds")
    headers = (("Retry-After", str(seconds)),) if seconds and error.code in {429, 503, 504} else ()
    try:
        media = choose_media(request) if request is not None else _PLAIN
    except ApiError:
        media = _PLAIN
    return encoded_response(media, status, error.code, headers)


def encoded_response(media: Media, obj: Any, status: int = 200, headers: tuple[tuple[str, str], ...] = ()) -> Response:
    return Response(status, (("Content-Type", media.type), *headers), encode(media, obj))


def encode(media: Media, obj: Any) -> bytes:
    if media.type == YAML:
        import yaml

        return yaml.dump(obj, Dumper=yaml.CSafeDumper, allow_unicode=True, default_flow_style=False).encode()
    return orjson.dumps(obj, option=orjson.OPT_INDENT_2 if media.pretty else None)


def warning_headers(warnings: list[str] | tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """Return Warning headers: each text once, bounded in total as upstream bounds them."""
    distinct = list(dict.fromkeys(warnings))
    if sum(map(len, distinct)) > _WARNINGS_TOTAL:
        distinct = [text[:_WARNING_CUT] for text in distinct]
    headers, total = [], 0
    for text in distinct:
        total += len(text)
        if total > _WARNINGS_TOTAL:
            break
        headers.append(("Warning", f'299 - "{_quotable(text)}"'))
    return tuple(headers)


_WARNINGS_TOTAL = 4096
_WARNING_CUT = 256


def _quotable(text: str) -> str:
    safe = "".join(char if char.isprintable() else " " for char in text)
    return safe.replace("\\", "\\\\").replace('"', '\\"')


def _parse_clause(clause: str, *, pretty: bool, transforms: bool) -> Media | None:
    kind, _, rest = clause.strip().partition(";")
    media = _MEDIA.get(kind.strip().lower())
    if media is None:
        return None
    parameters = dict(_parameter(part) for part in rest.split(";") if part.strip())
    target, pretty = parameters.get("as", ""), pretty or parameters.get("pretty") == "1"
    if not target:
        return Media(media, pretty=pretty)
    group, version = parameters.get("g", ""), parameters.get("v", "")
    if not transforms or target not in _TRANSFORMS or (group, version) not in _META_VERSIONS:
        return None
    return Media(media, target, version, pretty)


def _parameter(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name.strip().lower(), value.strip().strip('"')


def _wants_pretty(request: HandlerRequest) -> bool:
    pretty = request.parameter("pretty")
    if pretty:
        return pretty.lower() not in {"false", "0"}
    return request.header("user-agent").startswith(("curl", "Wget", "Mozilla/"))
