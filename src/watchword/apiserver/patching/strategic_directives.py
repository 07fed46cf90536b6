"""The directives of strategic merge patches, and the messages about bad ones."""

from __future__ import annotations

from typing import Any, Final

from watchword.api.json import go_print
from watchword.api.meta import Object
from watchword.apiserver.model import ApiError

DIRECTIVE: Final = "$patch"
RETAIN_KEYS: Final = "$retainKeys"
ORDER: Final = "$setElementOrder/"
DELETE_FROM: Final = "$deleteFromPrimitiveList/"


def bad_patch(message: str) -> ApiError:
    """A directive that makes no sense; kube-apiserver gives it no reason."""
    return ApiError(500, "", message)


def bad_list() -> ApiError:
    """A list and a directive about it that do not belong together."""
    return ApiError(400, "BadRequest", "invalid patch format of setElementOrder list")


def no_merge_key(item: Object, key: str) -> ApiError:
    """An item that cannot be matched with a present one."""
    return bad_patch(f"map: {go_print(item)} does not contain declared merge key: {key}")


def unknown_directive(directive: Any, where: Object) -> ApiError:
    """An undefined value of $patch."""
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


def _identity(item: Any, key: str) -> Any:
    if not key:
        return item
    if type(item) is not dict:
        raise bad_list()
    if key not in item:
        raise no_merge_key(item, key)
    return item[key]
