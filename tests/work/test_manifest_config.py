"""How single manifests are treated."""

from __future__ import annotations

from typing import Any

import pytest

from watchword.api.meta import Object, ObjectKey, ObjectRef
from watchword.api.resources import CONFIG_MAPS, NAMESPACES
from watchword.work.plan import Strategy, choose_manifest_config, is_orphaned, matches_pattern

ONE = ObjectRef(CONFIG_MAPS, ObjectKey("ns", "one"))


def config(strategy: str, **identifier: str) -> Object:
    about = {"group": "", "resource": "configmaps", "namespace": "ns", "name": "one", **identifier}
    return {"resourceIdentifier": about, "updateStrategy": {"type": strategy}}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        pytest.param([config("ReadOnly", name="two")], Strategy.UPDATE, id="another name"),
        pytest.param([config("ReadOnly", namespace="")], Strategy.UPDATE, id="no namespace is not any namespace"),
        pytest.param([config("ReadOnly", group="apps")], Strategy.UPDATE, id="another group"),
        pytest.param([config("ReadOnly", resource="*")], Strategy.UPDATE, id="kinds have no wildcards"),
        pytest.param([{"resourceIdentifier": "text"}], Strategy.UPDATE, id="no identifier"),
        pytest.param([config("NeverHeardOf")], Strategy.READ_ONLY, id="an unknown strategy writes nothing"),
        pytest.param([], Strategy.UPDATE, id="nothing said"),
        pytest.param([config("CreateOnly")], Strategy.CREATE_ONLY, id="named"),
        pytest.param([config("CreateOnly", name="*")], Strategy.CREATE_ONLY, id="any name"),
        pytest.param([config("CreateOnly", namespace="n*", name="o*e")], Strategy.CREATE_ONLY, id="parts"),
        pytest.param(
            [config("ReadOnly", name="*"), config("CreateOnly")], Strategy.CREATE_ONLY, id="a name beats a pattern"
        ),
        pytest.param([config("ReadOnly", name="o*"), config("CreateOnly", name="*")], Strategy.READ_ONLY, id="first"),
    ],
)
def test_choose_treatment(configs: list[Object], expected: Strategy) -> None:
    assert choose_manifest_config({"manifestConfigs": configs}, ONE).strategy is expected


def test_a_field_manager_that_is_not_ours_is_not_used() -> None:
    apply = {"serverSideApply": {"fieldManager": "kubectl"}, "type": "ServerSideApply"}
    spec = {"manifestConfigs": [{**config("Update"), "updateStrategy": apply}]}

    assert choose_manifest_config(spec, ONE).manager == "work-agent"


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        pytest.param("a", "ab", False, id="only equal"),
        pytest.param("a*b", "a", False, id="ends do not overlap"),
        pytest.param("aa*aa", "aaa", False, id="nor share letters"),
        pytest.param("a*x*b", "a--b", False, id="a part is missing"),
        pytest.param("*", "", True, id="anything is also nothing"),
        pytest.param("a*", "abc", True, id="beginning"),
        pytest.param("*c", "abc", True, id="end"),
        pytest.param("a*c*e", "abcde", True, id="parts in order"),
        pytest.param("*" * 500 + "b", "a" * 253, False, id="many stars cost little"),
    ],
)
def test_fits(pattern: str, text: str, *, expected: bool) -> None:
    assert matches_pattern(pattern, text) is expected


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        pytest.param({}, False, id="nothing said"),
        pytest.param({"propagationPolicy": "Foreground"}, False, id="removed"),
        pytest.param({"propagationPolicy": "SelectivelyOrphan"}, False, id="no rules"),
        pytest.param({"propagationPolicy": "Orphan"}, True, id="kept"),
        pytest.param(
            {
                "propagationPolicy": "SelectivelyOrphan",
                "selectivelyOrphans": {"orphaningRules": [config("Update")["resourceIdentifier"]]},
            },
            True,
            id="kept by rule",
        ),
    ],
)
def test_is_orphaned(option: dict[str, Any], *, expected: bool) -> None:
    assert is_orphaned({"deleteOption": option}, ONE) is expected


def test_the_clusters_own_namespaces_are_never_taken_along() -> None:
    system = ObjectRef(NAMESPACES, ObjectKey.cluster("kube-system"))

    assert is_orphaned({}, system)
