"""Parses YAML with PyYAML; refuses tags that run code and documents that expand."""

import re
from collections.abc import Callable
from typing import Any

import yaml

from watchword.api.text import escape_text, is_safe_text
from watchword.api.yaml import YamlError

MAXIMUM_BYTES = 4 * 1024 * 1024
MAXIMUM_DEPTH = 64
MAXIMUM_NODES = 200_000

_PREFIX = "tag:yaml.org,2002:"


# Ten times as fast with libyaml, where PyYAML was built with it.
class _Loader(getattr(yaml, "CBaseLoader", yaml.BaseLoader)):  # type: ignore[misc]
    """Composes nodes; supports the scalars of JSON and nothing else."""


class _Dumper(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
    """Writes every value in full, because anchors are refused when reading."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _represent_text(dumper: Any, word: str) -> yaml.Node:
    """Quote a text that holds characters unsafe for a terminal, so that they can be escaped."""
    text = str(word)
    style = None if is_safe_text(text, keep="\n\t") else '"'
    return yaml.ScalarNode(_PREFIX + "str", text, style=style) if style else dumper.represent_str(text)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_multi_representer(str, _represent_text)

# The core schema of YAML 1.2: `yes`, `12:30` and dates stay strings.
# The writer uses it too, so that it quotes every string that would be read as another type.
for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", "-+.0123456789"),
):
    for _class in (_Loader, _Dumper):
        _class.add_implicit_resolver(_PREFIX + _tag, re.compile(rf"^(?:{_pattern})\Z"), list(_first))


def parse(text: str | bytes) -> list[Any]:
    decoded = _decoded(text)
    try:
        _refuse_bombs(decoded)
        loader = _Loader(decoded)
        documents = []
        while loader.check_node():
            documents.append(_plain(loader.get_node()))
    except yaml.YAMLError as cause:
        raise YamlError(f"the text is not YAML{_where(getattr(cause, 'problem_mark', None))}") from cause
    except (UnicodeError, RecursionError) as cause:
        raise YamlError("the text holds characters that YAML does not allow") from cause
    return documents


def serialize(value: Any) -> str:
    written = yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=False, allow_unicode=True)
    return escape_text(str(written), keep="\n")


def _decoded(text: str | bytes) -> str:
    if len(text) > MAXIMUM_BYTES:
        raise YamlError(f"the text is larger than {MAXIMUM_BYTES // 1024 // 1024} MiB: is this the right file?")
    if isinstance(text, str):
        return text
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as cause:
        raise YamlError("the text is not UTF-8: is this the right file?") from cause


def _refuse_bombs(text: str) -> None:
    """Check the parser's events first: composing recursive or exponential input would be too late."""
    depth = nodes = 0
    loader = _Loader(text)
    while loader.check_event():
        event = loader.get_event()
        nodes += 1
        if isinstance(event, yaml.AliasEvent):
            raise YamlError(f"aliases are not accepted{_where(event.start_mark)}: write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAXIMUM_DEPTH or nodes > MAXIMUM_NODES:
            raise YamlError("the text is nested too deeply or holds too many values: is this the right file?")


def _plain(node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode) and node.tag == _PREFIX + "map":
        return _plain_mapping(node)
    if isinstance(node, yaml.SequenceNode) and node.tag == _PREFIX + "seq":
        return [_plain(item) for item in node.value]
    if isinstance(node, yaml.ScalarNode):
        return _plain_scalar(node)
    raise YamlError(f"the tag {_tag_name(node)} is not accepted{_where(node.start_mark)}")


def _plain_mapping(node: yaml.MappingNode) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for key_node, value_node in node.value:
        if not isinstance(key_node, yaml.ScalarNode) or key_node.tag not in _SCALARS:
            raise YamlError(f"a key is not a plain word{_where(key_node.start_mark)}")
        key = str(key_node.value)
        if key == "<<":
            raise YamlError(f"merge keys are not accepted{_where(key_node.start_mark)}: write the values out")
        if key in result:
            raise YamlError(f"the key {key!r} appears twice{_where(key_node.start_mark)}: keep one of them")
        result[key] = _plain(value_node)
    return result


def _plain_scalar(node: yaml.ScalarNode) -> Any:
    reader = _SCALARS.get(node.tag)
    if reader is None:
        raise YamlError(f"the tag {_tag_name(node)} is not accepted{_where(node.start_mark)}")
    try:
        return reader(node.value)
    except ValueError as cause:
        raise YamlError(f"a value is not what its tag says{_where(node.start_mark)}") from cause


def _boolean(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError(text)
    return text.lower() == "true"


def _integer(text: str) -> int:
    return int(text, 0) if text[:2] in {"0o", "0x"} else int(text)


def _real(text: str) -> float:
    value = float(text)
    if value in {float("inf"), float("-inf")} or value != value:  # noqa: PLR0124 - JSON knows neither infinity nor NaN
        raise ValueError(text)
    return value


_SCALARS: dict[str, Callable[[str], Any]] = {
    _PREFIX + "str": str,
    _PREFIX + "null": lambda _: None,
    _PREFIX + "bool": _boolean,
    _PREFIX + "int": _integer,
    _PREFIX + "float": _real,
}


def _tag_name(node: yaml.Node) -> str:
    return repr(str(node.tag).replace(_PREFIX, "!!"))


def _where(mark: Any) -> str:
    return f" (line {mark.line + 1})" if mark is not None else ""
