"""A definition becomes kinds: one for each served version."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.apiserver.crd.crd_manifests import a_definition, a_version, with_names, with_version

from watchword.api.meta import Object
from watchword.apiserver.crd.definition import decide_names, decide_status
from watchword.apiserver.crd.served_kinds import kinds_of
from watchword.apiserver.crd.validation import default_definition
from watchword.apiserver.kinds.schema import prune

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def test_each_served_version_is_a_kind() -> None:
    versions = [a_version(), a_version(name="v2", storage=False), a_version(name="v3", storage=False, served=False)]
    kinds = kinds_of(a_definition(versions=versions))

    assert [kind.resource.version for kind in kinds] == ["v1", "v2"]
    assert {kind.storage_version for kind in kinds} == {"v1"}
    assert all(kind.custom for kind in kinds)


def test_kind_has_names_and_endpoints() -> None:
    definition = with_version(subresources={"status": {}})
    definition["spec"]["names"].update(shortNames=["f"], categories=["all"])
    (kind,) = kinds_of(definition)

    assert (kind.resource.plural, kind.resource.kind, kind.singular) == ("foos", "Foo", "foo")
    assert (kind.short_names, kind.categories, kind.subresources) == (("f",), ("all",), ("status",))


def test_metadata_of_custom_objects_is_that_of_every_object() -> None:
    (kind,) = kinds_of(a_definition())
    obj = {"apiVersion": "ex.com/v1", "kind": "Foo", "metadata": {"name": "a", "labels": {"l": "1"}, "odd": 1}, "x": 1}

    assert prune(obj, kind.schema) == ["metadata.odd", "x"]


@pytest.mark.parametrize(
    ("column", "obj", "cell"),
    [
        pytest.param({"type": "string", "jsonPath": ".spec.a"}, {"spec": {"a": "x"}}, "x", id="text"),
        pytest.param({"type": "string", "jsonPath": ".spec.a"}, {"spec": {"a": [1]}}, "[1]", id="list as text"),
        pytest.param({"type": "string", "jsonPath": ".spec.a"}, {}, None, id="missing"),
        pytest.param({"type": "integer", "jsonPath": ".spec.a"}, {"spec": {"a": 3}}, 3, id="integer"),
        pytest.param({"type": "integer", "jsonPath": ".spec.a"}, {"spec": {"a": "x"}}, None, id="text for an integer"),
        pytest.param({"type": "integer", "jsonPath": ".spec.a"}, {"spec": {"a": 1e300}}, None, id="beyond 64 bits"),
        pytest.param({"type": "number", "jsonPath": ".spec.a"}, {"spec": {"a": 1}}, 1.0, id="number"),
        pytest.param({"type": "boolean", "jsonPath": ".spec.a"}, {"spec": {"a": True}}, True, id="boolean"),
        pytest.param({"type": "date", "jsonPath": ".spec.a"}, {"spec": {"a": "2026-01-01T00:00:00Z"}}, "60m", id="age"),
        pytest.param({"type": "date", "jsonPath": ".spec.a"}, {"spec": {"a": "soon"}}, "<invalid>", id="no date"),
        pytest.param({"type": "string", "jsonPath": ".spec["}, {}, None, id="broken path"),
    ],
)
def test_columns(column: Any, obj: Object, cell: Any) -> None:
    (kind,) = kinds_of(with_version(additionalPrinterColumns=[{"name": "A", **column}]))

    assert [each.name for each in kind.columns] == ["Name", "A"]
    assert kind.columns[1].cell({"metadata": {"name": "a"}, **obj}, NOW) == cell


def test_without_columns_there_is_the_age() -> None:
    (kind,) = kinds_of(a_definition())

    assert [each.name for each in kind.columns] == ["Name", "Age"]


def test_selectable_fields_read_as_selectors_compare() -> None:
    openapi = {"type": "object", "properties": {"on": {"type": "boolean"}}}
    (kind,) = kinds_of(a_definition(versions=[a_version(openapi, selectableFields=[{"jsonPath": ".on"}])]))

    assert kind.selectable_fields["on"]({"on": True}) == "true"
    assert kind.selectable_fields["metadata.name"]({"metadata": {"name": "a"}}) == "a"


def test_names_follow_from_the_kind() -> None:
    definition = a_definition(names={"plural": "foos", "kind": "Foo"}, conversion=None)

    default_definition(definition)

    assert definition["spec"]["names"] == {"plural": "foos", "kind": "Foo", "singular": "foo", "listKind": "FooList"}
    assert definition["spec"]["conversion"] == {"strategy": "None"}


def accepted(**names: Any) -> Object:
    definition = with_names(**names)
    definition["status"]["acceptedNames"] = definition["spec"]["names"]
    return definition


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        pytest.param(
            {"plural": "bars", "singular": "bar", "kind": "Bar", "listKind": "BarList"}, "NoConflicts", id="none"
        ),
        pytest.param({"singular": "bar", "kind": "Bar", "listKind": "BarList"}, "PluralConflict", id="plural"),
        pytest.param({"plural": "bars", "kind": "Bar", "listKind": "BarList"}, "SingularConflict", id="singular"),
        pytest.param({"plural": "bars", "singular": "bar", "listKind": "BarList"}, "KindConflict", id="kind"),
        pytest.param({"plural": "f", "singular": "b", "kind": "B", "listKind": "C"}, "ShortNamesConflict", id="short"),
    ],
)
def test_names_that_others_hold_are_refused(other: Any, reason: str) -> None:
    verdict = decide_names(with_names(shortNames=["f"]), [accepted(**other)])

    assert verdict.condition.reason == reason


def test_a_definition_keeps_the_names_it_holds() -> None:
    assert decide_names(accepted(), [accepted()]).condition.reason == "NoConflicts"


def test_the_status_of_an_accepted_definition() -> None:
    status = decide_status(a_definition(), [], NOW)

    assert status["acceptedNames"]["plural"] == "foos"
    assert [(row["type"], row["status"], row["reason"]) for row in status["conditions"]] == [
        ("NamesAccepted", "True", "NoConflicts"),
        ("Established", "True", "InitialNamesAccepted"),
    ]
    assert decide_status({**a_definition(), "status": status}, [], NOW.replace(year=2027)) == status


def test_definitions_with_the_same_schema_share_it() -> None:
    (kind,), (again,) = kinds_of(a_definition()), kinds_of(a_definition())
    (other,) = kinds_of(with_version(schema={"openAPIV3Schema": {"type": "object", "description": "another"}}))

    assert kind.schema is again.schema
    assert other.schema is not kind.schema
