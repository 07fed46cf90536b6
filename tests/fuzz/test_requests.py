"""No client input makes the control plane fail: it is processed, or refused with a message."""

from __future__ import annotations

from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st
from tests.fuzz.conftest import Target, bounded, corpus, encoded, filled
from tests.fuzz.inputs import accepts, media, methods, mutated, paths, queries, texts, values

from watchword.api.http import Peer, Request

SHAPES = corpus()
WITH_BODY = [shape for shape in SHAPES if shape.body is not None]
DEPLOYMENT = next(shape.body for shape in SHAPES if shape.name == "deployment" and "spec" in (shape.body or {}))
PLACE = "/apis/apps/v1/namespaces/default/deployments"


def request(method: str, path: str, body: bytes = b"", *, query: Any = (), **headers: str) -> Request:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Request(method, path, tuple(dict(query).items()), named, body)


@bounded
@given(methods, paths, queries, media, accepts, st.one_of(st.binary(max_size=200), values.map(orjson.dumps)))
def test_any_request_is_answered(
    target: Target, method: str, path: str, query: dict[str, str], content: str, accept: str, body: bytes
) -> None:
    target.ask(request(method, path, body, query=query, Content_Type=content, Accept=accept))


@bounded
@given(st.data())
def test_real_requests_with_something_wrong_in_them_are_answered(target: Target, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(WITH_BODY))
    body = data.draw(mutated(shape.body))
    headers = {name.replace("-", "_"): value for name, value in shape.headers.items()}
    query = {**shape.query, **data.draw(queries)}

    target.ask(request(shape.method, filled(shape.path), encoded(body), query=query, **headers))


@bounded
@given(st.data())
def test_bytes_cut_and_flipped_are_answered(target: Target, data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(WITH_BODY))
    raw = bytearray(encoded(shape.body))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(raw)))

    target.ask(request(shape.method, filled(shape.path), bytes(raw[:cut]), Content_Type=data.draw(media)))


@bounded
@given(
    st.sampled_from(["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]),
    st.data(),
)
def test_any_patch_is_answered(target: Target, language: str, data: st.DataObject) -> None:
    target.ask(request("POST", PLACE, encoded(DEPLOYMENT)))
    name = DEPLOYMENT["metadata"]["name"]
    patch = data.draw(_patches(language))

    target.ask(
        request(
            "PATCH",
            f"{PLACE}/{name}",
            orjson.dumps(patch),
            query={"fieldManager": "fuzz", "force": "true"} if "apply" in language else {},
            Content_Type=f"application/{language}",
        )
    )


def _patches(language: str) -> st.SearchStrategy[Any]:
    if language == "json-patch+json":
        pointers = st.lists(
            st.sampled_from(["spec", "template", "metadata", "containers", "0", "-", "a~1b", "~", ""]), max_size=5
        )
        pointer = pointers.map(lambda parts: "".join(f"/{part}" for part in parts))
        operation = st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x"]), "path": pointer},
            optional={"from": pointer, "value": values},
        )
        return st.one_of(st.lists(operation, max_size=5), values)
    directives = st.sampled_from(
        ["$patch", "$retainKeys", "$setElementOrder/containers", "$deleteFromPrimitiveList/args"]
    )
    spec = st.dictionaries(
        st.one_of(directives, st.sampled_from(["containers", "replicas", "template"]), texts), values
    )
    return st.one_of(
        mutated({**DEPLOYMENT, "spec": {"template": {"spec": {}}}}), spec.map(lambda it: {"spec": it}), values
    )


@bounded
@given(st.binary(max_size=300), st.booleans())
def test_any_protobuf_is_answered(target: Target, raw: bytes, envelope: bool) -> None:  # noqa: FBT001 - drawn
    head = b"k8s\x00\n\x0f\n\x02v1\x12\tConfigMap\x12" + bytes([len(raw) & 0x7F]) if envelope else b"k8s\x00"

    target.ask(
        request(
            "POST",
            "/api/v1/namespaces/default/configmaps",
            head + raw,
            Content_Type="application/vnd.kubernetes.protobuf",
        )
    )


@bounded
@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=40), st.text(max_size=40))
def test_any_selector_and_token_is_answered(
    target: Target, labels: str, fields: str, token: str, revision: str
) -> None:
    query = {"labelSelector": labels, "fieldSelector": fields, "continue": token, "resourceVersion": revision}

    target.ask(request("GET", "/api/v1/namespaces/default/secrets", query=query))
    target.ask(request("GET", "/api/v1/secrets", query={"watch": "1", "timeoutSeconds": "1", **query}))


@bounded
@given(
    st.one_of(st.text(max_size=80), st.binary(max_size=60).map(lambda raw: raw.decode("latin-1"))),
    st.binary(max_size=80),
)
def test_any_malformed_credential_is_refused(target: Target, authorization: str, certificate: bytes) -> None:
    asked = Request(
        "GET",
        "/api/v1/secrets",
        headers=(("Authorization", f"Bearer {authorization}"), ("Impersonate-User", authorization)),
        peer=Peer("1.2.3.4", (certificate,)),
    )

    assert target.ask(asked, as_admin=False).status in {400, 401, 403}


@bounded
@given(st.data())
def test_any_definition_is_answered_and_so_are_its_objects(target: Target, data: st.DataObject) -> None:
    schema = data.draw(mutated({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": {}}}}}))
    rule = data.draw(
        st.one_of(st.text(max_size=30), st.sampled_from(["self.a", "self == oldSelf", "size(self) > 1 && "]))
    )
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "fuzzes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "fuzzes", "kind": "Fuzz"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": {**_typed(schema), "x-kubernetes-validations": [{"rule": rule}]}},
                }
            ],
        },
    }
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    target.ask(request("POST", crds, orjson.dumps(definition)))
    fuzz = {"apiVersion": "example.com/v1", "kind": "Fuzz", "metadata": {"name": "f"}, "spec": data.draw(values)}
    target.ask(request("POST", "/apis/example.com/v1/fuzzes", orjson.dumps(fuzz)))
    target.ask(request("GET", "/apis/example.com/v1/fuzzes", Accept="application/json;as=Table;v=v1;g=meta.k8s.io"))
    target.ask(request("DELETE", f"{crds}/fuzzes.example.com"))


def _typed(schema: Any) -> dict[str, Any]:
    return schema if isinstance(schema, dict) else {"type": "object"}
