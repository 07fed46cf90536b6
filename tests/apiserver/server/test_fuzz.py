"""Nothing that a client sends makes the server fail: every refusal is the client's own doing."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from watchword.api.http import Request
from watchword.apiserver.access.config import AccessControl
from watchword.apiserver.access.rbac import AuthorizationDecision
from watchword.apiserver.control_plane import ControlPlane
from watchword.apiserver.serving.model import HandlerRequest, RequestInfo, User
from watchword.apiserver.store.memory import MemoryStore
from watchword.testing.virtual_time import run_virtual

EXAMPLES = int(os.environ.get("WATCHWORD_FUZZ_EXAMPLES", "40"))
KINDS = ("configmaps", "secrets", "pods", "services", "serviceaccounts", "events")
APPS = ("deployments",)
OTHERS = (
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "/apis/certificates.k8s.io/v1/certificatesigningrequests",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis/batch/v1/namespaces/default/cronjobs",
    "/api/v1/namespaces",
)
PATCHES = ("merge-patch+json", "json-patch+json", "strategic-merge-patch+json", "apply-patch+yaml")

values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
        ("name", "spec", "metadata", "data", "rules", "template", "containers", "labels", "selector", "kind", "op",
         "path", "value", "managedFields", "finalizers", "ownerReferences", "versions", "schema", "status", "$patch")
    ) | st.text(max_size=4), inner, max_size=4),
    max_leaves=14,
)  # fmt: skip
objects = st.fixed_dictionaries(
    {"metadata": st.fixed_dictionaries({"name": st.sampled_from(("a", "b", "A_"))}, optional={"labels": values})},
    optional=dict.fromkeys(("spec", "data", "status", "rules", "subjects", "roleRef", "type", "secrets"), values),
)
queries = st.dictionaries(
    st.sampled_from(
        ("watch", "limit", "continue", "resourceVersion", "resourceVersionMatch", "labelSelector", "fieldSelector",
         "timeoutSeconds", "sendInitialEvents", "dryRun", "fieldManager", "fieldValidation", "force", "pretty",
         "includeObject", "propagationPolicy", "gracePeriodSeconds")
    ),
    st.sampled_from(
        ("", "0", "1", "true", "All", "Exact", "NotOlderThan", "a=b", "metadata.name=a", "x", "-1", "é", ",")
    ),
    max_size=3,
)  # fmt: skip


@st.composite
def requests(draw: st.DrawFn) -> Request:
    collection = draw(
        st.sampled_from(
            [*(f"/api/v1/namespaces/default/{kind}" for kind in KINDS), *OTHERS]
            + [f"/apis/apps/v1/namespaces/default/{kind}" for kind in APPS]
        )
    )
    method = draw(st.sampled_from(("GET", "POST", "PUT", "PATCH", "DELETE")))
    name = "" if method == "POST" else draw(st.sampled_from(("", "/a", "/b", "/a/status", "/%2e")))
    media = draw(st.sampled_from(PATCHES)) if method == "PATCH" else "json"
    bodies = objects.map(orjson.dumps) | values.map(orjson.dumps) | st.binary(max_size=20)
    body = b"" if method == "GET" else draw(bodies)
    headers = (("Content-Type", f"application/{media}"),)
    return Request(method, f"{collection}{name}", tuple(draw(queries).items()), headers, body)


class AllowAll:
    def decide(self, user: User, info: RequestInfo) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


async def anybody(_: HandlerRequest) -> User:
    return User("tester")


async def answers(sent: list[Request]) -> list[tuple[Request, int, bytes]]:
    plane = ControlPlane(
        MemoryStore(), lambda: datetime(2030, 1, 1, tzinfo=UTC), lambda _: AccessControl(anybody, AllowAll())
    )
    await plane.start()
    await plane.handle(Request("POST", "/api/v1/namespaces", body=b'{"metadata":{"name":"default"}}'))
    found = []
    for request in sent:
        answer = await plane.handle(request)
        if answer.stream is not None:
            await answer.stream.aclose()  # type: ignore[attr-defined] # an async generator
        found.append((request, answer.status, answer.body))
    await plane.stop()
    return found


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(sent=st.lists(requests(), min_size=1, max_size=12))
def test_no_sequence_of_requests_meets_an_error_of_our_own(sent: list[Request]) -> None:
    outcomes = run_virtual(answers(sent))

    assert [body for _, status, body in outcomes if status >= 500 and b"Internal error" in body] == []
