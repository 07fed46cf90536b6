"""Reads untrusted YAML into plain data and writes it; PyYAML is imported with the first document."""

from typing import Any


class YamlError(ValueError):
    """The text is not the plain YAML that is accepted here; the message says where and why."""


def load(text: str | bytes) -> Any:
    """Return the one document in the text (None when empty); raise `YamlError` for anything unusual.

    Refused: aliases, duplicate or non-scalar keys, tags beyond JSON's types, several documents,
    and texts that are too large or too deeply nested.
    """
    documents = load_all(text)
    if len(documents) > 1:
        raise YamlError("the text holds more than one YAML document: give exactly one")
    return documents[0] if documents else None


def load_all(text: str | bytes) -> list[Any]:
    """Return every document in the text, under the same rules as `load`."""
    from watchword.api.yaml_documents import parse

    return parse(text)


def dump(value: Any) -> str:
    from watchword.api.yaml_documents import serialize

    return serialize(value)
