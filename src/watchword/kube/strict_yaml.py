"""YAML from outside, without its traps: no anchors, tags, duplicate keys, deep nesting or guessed types."""

from __future__ import annotations

from typing import Any

import yaml

from watchword.kube.errors import ConfigError

SIZE_LIMIT = 16 * 1024 * 1024
DEPTH_LIMIT = 32
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TRUTHS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_PLAIN_TAGS = frozenset({None, "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})


def parse_yaml(data: bytes) -> Any:
    """Return the one document in the text: mappings, lists, strings, booleans and nulls, numbers as strings.

    Raises `ConfigError` for anything else.
    """
    if len(data) > SIZE_LIMIT:
        raise ConfigError(f"the document is larger than {SIZE_LIMIT} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise ConfigError("the document is not UTF-8 text") from cause
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as cause:
        raise ConfigError(f"the document is not YAML{_place(cause)}") from cause
    return builder.result


class _Builder:
    """Builds the document from the flat stream of events, so that no nesting can exhaust the stack."""

    def __init__(self) -> None:
        self.result: Any = None
        self._documents = 0
        self._open: list[dict[str, Any] | list[Any]] = []
        self._keys: list[str | None] = []  # of each open mapping: the key that waits for its value

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None):
            raise ConfigError("the document uses anchors and aliases, which are refused: write values out")
        if isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise ConfigError("the text holds more than one document")
        elif isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event), key=event.value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._start(event)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._open.pop()
            self._keys.pop()

    def _start(self, event: yaml.CollectionStartEvent) -> None:
        _check_tag(event.tag)
        value: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._put(value, key=None)
        self._open.append(value)
        self._keys.append(None)
        if len(self._open) > DEPTH_LIMIT:
            raise ConfigError(f"the document is nested deeper than {DEPTH_LIMIT} levels")

    def _put(self, value: Any, *, key: str | None) -> None:
        if not self._open:
            self.result = value
            return
        target = self._open[-1]
        if isinstance(target, list):
            target.append(value)
        elif self._keys[-1] is not None:
            target[self._keys[-1]] = value
            self._keys[-1] = None
        elif key is None:
            raise ConfigError("the document has a mapping whose key is not a string")
        elif key in target:
            raise ConfigError("the document has a mapping with the same key twice")
        else:
            self._keys[-1] = key


def _scalar(event: yaml.ScalarEvent) -> str | bool | None:
    _check_tag(event.tag)
    plain = event.implicit[0] and event.style in {None, ""}
    if not plain:
        return str(event.value)
    if event.value in _NULLS:
        return None
    return _TRUTHS.get(event.value, event.value)


def _check_tag(tag: str | None) -> None:
    if tag not in _PLAIN_TAGS:
        raise ConfigError("the document uses explicit types, which are refused")


def _place(cause: yaml.YAMLError) -> str:
    mark = getattr(cause, "problem_mark", None)
    return f" (line {mark.line + 1})" if mark is not None else ""
