"""What single rules allow and cover."""

from __future__ import annotations

import pytest

from watchword.apiserver.access.rules import Rule, compacted, uncovered
from watchword.apiserver.serving.requestinfo import read_request_info

PODS = Rule(("get", "list"), ("",), ("pods",))
NAMED = Rule(("get",), ("",), ("configmaps",), ("cluster-info",))
EVERYTHING = Rule(("*",), ("*",), ("*",))


def _allows(rule: Rule, method: str, path: str, *query: tuple[str, str]) -> bool:
    info = read_request_info(method, path, query)
    return rule.allows(info, f"{info.resource}/{info.subresource}" if info.subresource else info.resource)


@pytest.mark.parametrize(
    ("rule", "method", "path", "query"),
    [
        pytest.param(PODS, "DELETE", "/api/v1/namespaces/a/pods/x", (), id="another verb"),
        pytest.param(PODS, "GET", "/apis/apps/v1/namespaces/a/pods", (), id="another group"),
        pytest.param(PODS, "GET", "/api/v1/namespaces/a/pods/x/log", (), id="a resource does not cover its parts"),
        pytest.param(PODS, "GET", "/healthz", (), id="a path is no resource"),
        pytest.param(NAMED, "GET", "/api/v1/namespaces/a/configmaps/other", (), id="another name"),
        pytest.param(Rule(("list",), ("",), ("configmaps",), ("a",)), "GET", "/api/v1/configmaps", (), id="no name"),
        pytest.param(Rule(("get",), urls=("/api/*",)), "GET", "/api", (), id="prefix needs its slash"),
        pytest.param(Rule(("get",), ("",), ("*/status",)), "GET", "/api/v1/nodes/x", (), id="only the part"),
    ],
)
def test_rule_refuses(rule: Rule, method: str, path: str, query: tuple[tuple[str, str], ...]) -> None:
    assert not _allows(rule, method, path, *query)


@pytest.mark.parametrize(
    ("rule", "method", "path", "query"),
    [
        pytest.param(PODS, "GET", "/api/v1/namespaces/a/pods", (), id="the verb and resource named"),
        pytest.param(EVERYTHING, "PATCH", "/apis/x.y/v1/things/z/status", (), id="stars"),
        pytest.param(NAMED, "GET", "/api/v1/namespaces/a/configmaps/cluster-info", (), id="the name"),
        pytest.param(
            Rule(("list",), ("",), ("configmaps",), ("a",)),
            "GET",
            "/api/v1/configmaps",
            (("fieldSelector", "metadata.name=a"),),
            id="a list pinned to the name",
        ),
        pytest.param(Rule(("get",), urls=("/api/*",)), "GET", "/api/v1", (), id="prefix"),
        pytest.param(Rule(("get",), urls=("*",)), "GET", "/metrics", (), id="every path"),
        pytest.param(Rule(("get",), ("",), ("*/status",)), "GET", "/api/v1/nodes/x/status", (), id="part of any"),
    ],
)
def test_rule_allows(rule: Rule, method: str, path: str, query: tuple[tuple[str, str], ...]) -> None:
    assert _allows(rule, method, path, *query)


@pytest.mark.parametrize(
    ("held", "wanted", "missing"),
    [
        pytest.param([EVERYTHING], [PODS, NAMED], [], id="everything covers all"),
        pytest.param(
            [EVERYTHING], [Rule(("get",), urls=("/x",))], ['{NonResourceURLs:["/x"], Verbs:["get"]}'], id="url"
        ),
        pytest.param([NAMED], [NAMED], [], id="the same name"),
        pytest.param(
            [NAMED],
            [Rule(("get",), ("",), ("configmaps",))],
            ['{APIGroups:[""], Resources:["configmaps"], Verbs:["get"]}'],
            id="a named rule does not cover an unnamed one",
        ),
        pytest.param(
            [PODS],
            [Rule(("get", "delete", "watch"), ("",), ("pods",))],
            ['{APIGroups:[""], Resources:["pods"], Verbs:["delete" "watch"]}'],
            id="missing verbs are joined",
        ),
        pytest.param([Rule(("get",), ("",), ("*/log",))], [Rule(("get",), ("",), ("pods/log",))], [], id="part of any"),
        pytest.param([Rule(("*",), urls=("/a*",))], [Rule(("get",), urls=("/ab", "/a*"))], [], id="url prefix"),
    ],
)
def test_what_is_not_covered_is_named(held: list[Rule], wanted: list[Rule], missing: list[str]) -> None:
    assert [str(rule) for rule in compacted(uncovered(held, wanted))] == missing
