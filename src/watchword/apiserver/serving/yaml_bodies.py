"""YAML as the API accepts it: JSON values only, no aliases, no repeated keys."""

import math
from typing import Any

import yaml

from watchword.api.json import MAX_DEPTH
from watchword.apiserver.serving.bodies import MAX_YAML_BYTES
from watchword.apiserver.serving.errors import bad_request, too_large


class RepeatedKey(yaml.YAMLError):
    """A mapping names a key twice."""


class _Loader(yaml.CSafeLoader):
    """Reads plain data; what YAML adds to JSON is refused or read as text."""


# Instants stay text, as in JSON.
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        key = _key(loader.construct_object(key_node, deep=True))
        if key in result:
            line = key_node.start_mark.line + 1
            raise RepeatedKey(f'yaml: unmarshal errors:\n  line {line}: key "{key}" already set in map')
        result[key] = loader.construct_object(value_node, deep=True)
    return result


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def load(body: bytes) -> Any:
    """Parse one YAML document; 400 when it is invalid, or contains what JSON cannot."""
    if len(body) > MAX_YAML_BYTES:
        raise too_large(MAX_YAML_BYTES)
    try:
        _require_no_aliases_or_depth(body)
        value = yaml.load(body, Loader=_Loader)  # noqa: S506 - a subclass of the safe loader
    except RepeatedKey as cause:
        raise bad_request(f"error strict decoding YAML: error converting YAML to JSON: {cause}") from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as cause:
        detail = str(cause).replace("\n", " ")
        raise bad_request(f"error converting YAML to JSON: {detail[:200] or 'nested too deep'}") from None
    _require_json(value)
    return value


def _require_no_aliases_or_depth(body: bytes) -> None:
    """Refuse aliases (they multiply) and depth (it recurses) before anything is built."""
    depth = 0
    for event in yaml.parse(body, Loader=yaml.CSafeLoader):
        if isinstance(event, yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not accepted")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise yaml.YAMLError("nested too deep")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _key(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise yaml.YAMLError("keys must be text")


def _require_json(value: Any) -> None:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, float) and not math.isfinite(item):
            raise bad_request("error converting YAML to JSON: numbers must be finite")
        elif isinstance(item, int) and item.bit_length() > 64:
            raise bad_request("error converting YAML to JSON: number out of range")
        elif not (item is None or isinstance(item, str | int | float)):
            raise bad_request("error converting YAML to JSON: only plain data is accepted")
