from __future__ import annotations

import ast
from pathlib import Path

import watchword
from watchword.api.sensitive import HiddenFields


class Letter(HiddenFields, frozen=True):
    hidden = ("content",)

    recipient: str
    content: str
    stamps: int = 1


def test_hidden_field_is_not_shown() -> None:
    assert repr(Letter("edge", "the secret")) == "Letter(recipient='edge', stamps=1)"


def test_hidden_field_counts_for_equality() -> None:
    assert Letter("edge", "one") != Letter("edge", "another")
    assert Letter("edge", "one") == Letter("edge", "one")


STRUCTS = {"Struct", "HiddenFields"}


def shown_secrets(source: str) -> list[str]:
    """Return the fields of Structs that hold the data of a Secret and are not hidden."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef) or not STRUCTS & {ast.unparse(base) for base in node.bases}:
            continue
        texts = [ast.unparse(each) for each in node.body]
        hidden = " ".join(text for text in texts if text.startswith("hidden ="))
        fields = [each for each in node.body if isinstance(each, ast.AnnAssign) and "SecretData" in ast.unparse(each)]
        found += [name for each in fields if f"'{(name := ast.unparse(each.target))}'" not in hidden]
    return found


def test_no_struct_shows_the_data_of_a_secret() -> None:
    files = sorted(Path(watchword.__file__).parent.rglob("*.py"))

    assert {str(file): shown for file in files if (shown := shown_secrets(file.read_text()))} == {}
    assert shown_secrets("class A(Struct):\n    held: SecretData") == ["held"]
