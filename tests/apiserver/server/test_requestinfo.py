"""How a method, a path and a query are interpreted."""

from __future__ import annotations

import pytest

from watchword.apiserver.serving.model import RequestInfo
from watchword.apiserver.serving.requestinfo import read_request_info


def resource(verb: str, path: str, **fields: str) -> RequestInfo:
    return RequestInfo(verb, path, is_resource=True, version="v1", **fields)


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        pytest.param("GET", "/api", {}, RequestInfo("get", "/api"), id="discovery of the core group"),
        pytest.param("GET", "/apis/apps/v1", {}, RequestInfo("get", "/apis/apps/v1"), id="discovery of a version"),
        pytest.param("POST", "/healthz", {}, RequestInfo("post", "/healthz"), id="any other path"),
        pytest.param(
            "GET",
            "/api/v1/namespaces/n/pods/p",
            {},
            resource("get", "/api/v1/namespaces/n/pods/p", resource="pods", namespace="n", name="p"),
            id="one object",
        ),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"watch": "true"},
            resource("watch", "/api/v1/pods", resource="pods"),
            id="watch",
        ),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"watch": "0"},
            resource("list", "/api/v1/pods", resource="pods"),
            id="watch switched off",
        ),
        pytest.param(
            "GET",
            "/api/v1/pods",
            {"fieldSelector": "metadata.name=p,x!=y"},
            resource("list", "/api/v1/pods", resource="pods", name="p"),
            id="a pinned name is the name, so that resourceNames count",
        ),
        pytest.param(
            "DELETE",
            "/apis/apps/v1/namespaces/n/deployments",
            {},
            resource(
                "deletecollection",
                "/apis/apps/v1/namespaces/n/deployments",
                group="apps",
                resource="deployments",
                namespace="n",
            ),
            id="delete without a name",
        ),
        pytest.param(
            "PUT",
            "/api/v1/namespaces/n/finalize",
            {},
            resource(
                "update",
                "/api/v1/namespaces/n/finalize",
                resource="namespaces",
                subresource="finalize",
                namespace="n",
                name="n",
            ),
            id="subresource of a namespace",
        ),
        pytest.param(
            "GET",
            "/api/v1/namespaces/n%2Fx/pods/a%2Fb",
            {},
            resource(
                "get", "/api/v1/namespaces/n/x/pods/a/b", resource="x", namespace="n", name="pods", subresource="a"
            ),
            id="an encoded slash cuts as a plain one does",
        ),
    ],
)
def test_read_request(method: str, path: str, query: dict[str, str], expected: RequestInfo) -> None:
    assert read_request_info(method, path, tuple(query.items())) == expected
