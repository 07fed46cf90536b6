"""Strategic merge patch: lists merge by key where the kind defines one, and by directives."""

from typing import Any, Final

from watchword.api.json import copy_json, go_print, show
from watchword.api.meta import Object
from watchword.apiserver.kinds.schema import Schema
from watchword.apiserver.serving.bodies import json_type
from watchword.apiserver.serving.errors import bad_request
from watchword.apiserver.serving.model import ApiError

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def bad_patch(message: str) -> ApiError:
    """A directive that makes no sense; kube-apiserver gives it no reason."""
    return ApiError(500, "", message)


def bad_list() -> ApiError:
    return ApiError(400, "BadRequest", "invalid patch format of setElementOrder list")


def unknown_directive(directive: Any, where: Object) -> ApiError:
    return bad_patch(f"unknown patch type: {go_print(directive)} in map: {go_print(where)}")


def check_retained(retained: Any, patch: Object) -> frozenset[str]:
    """Return the keys to keep; every field that the patch sets must be among them."""
    refusal = ApiError(400, "BadRequest", "invalid patch format of retainKeys")
    if type(retained) is not list or not all(type(key) is str for key in retained):
        raise refusal
    for key, value in patch.items():
        if value is not None and key not in retained and not key.startswith((DELETE_FROM, ORDER)):
            raise refusal
    return frozenset(retained)


def check_order(items: list[Any], order: list[Any], key: str) -> None:
    """Refuse an order that names the items of the patch in another order than the patch does."""
    wanted = iter([_identity(each, key) for each in order])
    if not order:
        return
    for item in items:
        if type(item) is dict and DIRECTIVE in item:
            continue
        identity = _identity(item, key)
        if not any(identity == each for each in wanted):
            told = f"The order in patch list:\n{go_print(items)}\n "
            told += f"doesn't match $setElementOrder list:\n{go_print(order)}\n"
            raise bad_patch(told)


def _identity(item: Any, key: str) -> str:
    if not key:
        return show(item)
    if type(item) is not dict:
        raise bad_list()
    if key not in item:
        raise bad_patch(f"map: {go_print(item)} does not contain declared merge key: {key}")
    return show(item[key])


def arrange(merged: list[Any], order: list[Any], before: list[Any], key: str) -> list[Any]:
    """Put items of the patch in the patch's order, and the others around them as they stood before."""
    wanted = {_identity(item, key): place for place, item in reversed(list(enumerate(order)))}
    old_places = {_identity(item, key): place for place, item in reversed(list(enumerate(before)))}
    identified = [(_identity(item, key), item) for item in merged]
    patched = sorted((pair for pair in identified if pair[0] in wanted), key=lambda pair: wanted[pair[0]])
    kept = [pair for pair in identified if pair[0] not in wanted]
    kept.sort(key=lambda pair: old_places.get(pair[0], len(old_places)))
    arranged: list[Any] = []
    left, right = 0, 0
    while left < len(kept) and right < len(patched):
        kept_place, patched_place = old_places.get(kept[left][0]), old_places.get(patched[right][0])
        if kept_place is not None and patched_place is not None and kept_place < patched_place:
            arranged.append(kept[left][1])
            left += 1
        else:
            arranged.append(patched[right][1])
            right += 1
    return [*arranged, *(item for _, item in patched[right:]), *(item for _, item in kept[left:])]


def apply_strategic_patch(document: Object, patch: Any, schema: Schema) -> Object:
    """Merge a patch into the document, in place, and return the result; null removes a field.

    Raises 400 for what is not a patch, 500 without a reason for directives that make no sense,
    as kube-apiserver does. Nothing of the patch is shared with the result.
    """
    if type(patch) is not dict:
        found = json_type(patch)
        raise bad_request(f"json: cannot unmarshal {found} into Go value of type map[string]interface {{}}")
    return _merge_map(document, copy_json(patch), schema)


def _merge_map(document: Object, patch: Object, schema: Schema) -> Object:
    if DIRECTIVE in patch:
        directive = patch[DIRECTIVE]
        if directive == "replace":
            del patch[DIRECTIVE]
            return patch
        if directive == "delete":
            return {}
        raise unknown_directive(directive, patch)
    if RETAIN_KEYS in patch:
        retained = check_retained(patch.pop(RETAIN_KEYS), patch)
        for key in [key for key in document if key not in retained]:
            del document[key]
    for key in [key for key in patch if key.startswith(ORDER)]:
        _merge_in_order(document, patch, key, schema)
    for key, value in patch.items():
        if key.startswith(DELETE_FROM):
            _delete_from(document, key.removeprefix(DELETE_FROM), value)
        elif value is None:
            document.pop(key, None)
        else:
            _merge_field(document, key, value, schema)
    return document


def _merge_field(document: Object, key: str, value: Any, schema: Schema) -> None:
    below = schema.field(key)
    present = document.get(key)
    if type(present) is dict and type(value) is dict:
        document[key] = value if below.patch_strategy == "replace" else _merge_map(present, value, below)
    elif type(present) is list and type(value) is list:
        document[key] = _merge_list(present, value, below)
    else:
        kept = _without_directives(_without_nulls(value))
        if kept is None:
            document.pop(key, None)
        else:
            document[key] = kept


def _merge_in_order(document: Object, patch: Object, directive: str, schema: Schema) -> None:
    key, order = directive.removeprefix(ORDER), patch.pop(directive)
    present, added = document.get(key), patch.pop(key, None)
    if type(order) is not list or (present is not None and type(present) is not list):
        raise bad_list()
    if added is not None and type(added) is not list:
        raise bad_list()
    below = schema.field(key)
    check_order(added or [], order, below.patch_merge_key)
    if present is None and added is None:
        return
    before = list(present or [])
    if present is None:
        merged = _without_directives(added)
    else:
        merged = present if added is None else _merge_list(present, added, below)
    document[key] = arrange(merged, order, before, below.patch_merge_key)


def _delete_from(document: Object, key: str, doomed: Any) -> None:
    if doomed is None:
        document.pop(key, None)
        return
    if type(doomed) is not list:
        raise bad_list()
    present = document.get(key)
    if type(present) is list:
        gone = {show(item) for item in doomed}
        document[key] = [item for item in present if show(item) not in gone]


def _merge_list(present: list[Any], patch: list[Any], schema: Schema) -> list[Any]:
    if "merge" not in schema.patch_strategy or not (present or patch):
        return patch
    items = [*present, *patch]
    if any(type(item) is list for item in items):
        raise bad_patch("lists of lists are not supported")
    if len({type(item) is dict for item in items}) > 1:
        raise bad_list()
    if type(items[0]) is not dict:
        return arrange(list({show(item): item for item in items}.values()), patch, present, "")
    key = schema.patch_merge_key
    if not key:
        raise bad_patch("cannot merge lists without merge key")
    before = list(present)
    present, patch = _settle_directives(present, patch, key)
    merged = _merge_items(present, patch, key, schema.item)
    return arrange(merged, patch, before, key)


def _settle_directives(present: list[Any], patch: list[Any], key: str) -> tuple[list[Any], list[Any]]:
    """Obey items that are directives; return what is left of both lists."""
    plain = [item for item in patch if DIRECTIVE not in item]
    doomed: set[str] = set()
    replaces = False
    for item in patch:
        directive = item.get(DIRECTIVE)
        if directive == "delete":
            doomed.add(_identity(item, key))
        elif directive == "replace":
            replaces = True
        elif directive is not None:
            raise unknown_directive(directive, item)
    if replaces:
        return _without_directives(plain), []
    return [each for each in present if key not in each or show(each[key]) not in doomed], plain


def _merge_items(present: list[Any], patch: list[Any], key: str, schema: Schema) -> list[Any]:
    merged = list(present)
    places = {show(each[key]): index for index, each in reversed(list(enumerate(merged))) if key in each}
    for item in patch:
        place = places.setdefault(_identity(item, key), len(merged))
        if place == len(merged):
            merged.append(_without_directives(item))
        else:
            merged[place] = _merge_map(merged[place], item, schema)
    return merged


def _without_nulls(value: Any) -> Any:
    if type(value) is dict:
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if type(value) is list else value


def _without_directives(value: Any) -> Any:
    """Return a new value as it is to be stored; None for an object that is nothing but a directive."""
    if type(value) is dict:
        if DIRECTIVE in value:
            return None
        kept = {key: _without_directives(item) for key, item in value.items() if not key.startswith("$")}
        return {key: item for key, item in kept.items() if item is not None or value[key] is None}
    if type(value) is list:
        kept_items = [(item, _without_directives(item)) for item in value]
        return [kept for item, kept in kept_items if kept is not None or item is None]
    return value
