"""Reads the query parameters of lists, watches and writes, and refuses what contradicts itself."""

from typing import Any, cast

from msgspec import Struct

from watchword.api.selectors import LabelSelector
from watchword.apiserver import requestinfo
from watchword.apiserver.errors import bad_request, invalid_kind, quote
from watchword.apiserver.field_errors import forbidden, invalid, not_supported, required, too_long
from watchword.apiserver.model import FieldError, HandlerRequest
from watchword.apiserver.registry.pipeline import Strictness, WriteRequest

_LONGEST_MANAGER = 128
_LARGEST = 2**63 - 1


class ListOptions(Struct, frozen=True):
    """The options of a list or a watch."""

    labels: LabelSelector = requestinfo.EVERYTHING
    fields: requestinfo.FieldSelector = requestinfo.NO_FIELDS
    watch: bool = False
    bookmarks: bool = False
    resource_version: str = ""
    match: str = ""  # resourceVersionMatch
    timeout_seconds: int | None = None
    limit: int = 0
    continue_token: str = ""
    send_initial_events: bool | None = None


def read_list_options(request: HandlerRequest, *, watch: bool | None = None) -> ListOptions:
    """Read and check; 400 for values that cannot be read, 422 for combinations that make no sense."""
    said = dict(reversed(request.query))
    initial = said.get("sendInitialEvents")
    timeout = said.get("timeoutSeconds")
    options = ListOptions(
        labels=requestinfo.parse_label_selector(said.get("labelSelector", "")),
        fields=requestinfo.parse_field_selector(said.get("fieldSelector", "")),
        watch=requestinfo.is_truthy(said.get("watch")) if watch is None else watch,
        bookmarks=requestinfo.is_truthy(said.get("allowWatchBookmarks")),
        resource_version=said.get("resourceVersion", ""),
        match=said.get("resourceVersionMatch", ""),
        timeout_seconds=parse_integer(timeout) if timeout else None,
        limit=max(parse_integer(said.get("limit") or "0"), 0),
        continue_token=said.get("continue", ""),
        send_initial_events=requestinfo.is_truthy(initial) if initial else None,
    )
    errors = _watch_errors(options) if options.watch else _list_errors(options)
    if errors:
        raise invalid_kind("meta.k8s.io", "ListOptions", "", errors)
    return options


def _list_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = "resourceVersionMatch", options.match
    if match:
        if not options.resource_version:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
        if options.continue_token:
            errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
        if match not in {"Exact", "NotOlderThan"}:
            errors.append(not_supported(path, match, ("Exact", "NotOlderThan", "")))
        if match == "Exact" and options.resource_version == "0":
            errors.append(forbidden(path, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    if options.send_initial_events is not None:
        errors.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return errors


def _watch_errors(options: ListOptions) -> list[FieldError]:
    errors: list[FieldError] = []
    path, match = "resourceVersionMatch", options.match
    if options.send_initial_events is not None and match != "NotOlderThan":
        errors.append(forbidden(path, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
    if match:
        if options.send_initial_events is None:
            detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            errors.append(forbidden(path, detail))
        if match != "NotOlderThan":
            errors.append(not_supported(path, match, ("NotOlderThan",)))
    if options.continue_token:  # a watch without a match has one by itself: it begins with the current state
        errors.append(forbidden(path, "resourceVersionMatch is forbidden when continue is provided"))
    return errors


def read_write_request(request: HandlerRequest, *, options_kind: str, apply: bool = False) -> WriteRequest:
    errors: list[FieldError] = []
    dry_run = parse_dry_run([value for name, value in request.query if name == "dryRun"], errors)
    manager = request.parameter("fieldManager")
    if apply and not manager:
        errors.append(required("fieldManager", "is required for apply patch"))
    errors.extend(_manager_errors(manager))
    strictness = request.parameter("fieldValidation")
    if strictness not in {"", "Ignore", "Warn", "Strict"}:
        errors.append(not_supported("fieldValidation", strictness, ("", "Ignore", "Strict", "Warn")))
    force = request.parameter("force")
    if force and not apply:
        errors.append(forbidden("force", "may not be specified for non-apply patch"))
    if errors:
        raise invalid_kind("meta.k8s.io", options_kind, "", errors)
    return WriteRequest(
        user=request.user,
        manager=manager or request.header("user-agent").partition("/")[0][:_LONGEST_MANAGER] or "unknown",
        dry_run=dry_run,
        strictness=cast("Strictness", strictness or "Warn"),
        force=requestinfo.is_truthy(force) if force else False,
        options={
            **({"dryRun": ["All"]} if dry_run else {}),
            **({"fieldManager": manager} if manager else {}),
            **({"fieldValidation": strictness} if strictness else {}),
        },
        annotations=request.annotations,
    )


def parse_dry_run(said: Any, errors: list[FieldError]) -> bool:
    """Whether nothing is to be stored; any value but All is an error."""
    if not said:
        return False
    if not isinstance(said, list) or any(value != "All" for value in said):
        errors.append(not_supported("dryRun", said, ("All",)))
        return False
    return True


def parse_integer(text: str) -> int:
    """Read a decimal integer; 400 otherwise."""
    digits = text.removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20) or abs(int(text)) > _LARGEST:
        raise bad_request(f"strconv.ParseInt: parsing {quote(text)}: invalid syntax")
    return int(text)


def _manager_errors(manager: str) -> list[FieldError]:
    if len(manager.encode()) > _LONGEST_MANAGER:
        return [too_long("fieldManager", _LONGEST_MANAGER)]
    for position, char in enumerate(manager):
        if not char.isprintable():
            place = len(manager[:position].encode())
            return [invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {place})")]
    return []
