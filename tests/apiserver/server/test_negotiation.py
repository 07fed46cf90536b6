"""The format of a response follows the client's Accept header."""

from __future__ import annotations

import pytest

from watchword.apiserver.serving.model import ApiError, HandlerRequest, RequestInfo
from watchword.apiserver.serving.negotiation import Media, choose_media, warning_headers

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def asking(accept: str, *, agent: str = "", **query: str) -> HandlerRequest:
    headers = (("Accept", accept), ("User-Agent", agent))
    return HandlerRequest(RequestInfo("get", "/"), "GET", tuple(query.items()), headers, b"")


@pytest.mark.parametrize(
    ("accept", "expected"),
    [
        pytest.param("", Media(), id="nothing said"),
        pytest.param("*/*", Media(), id="anything"),
        pytest.param(TABLE, Media(transform="Table"), id="table"),
        pytest.param(f"{TABLE},application/json", Media(transform="Table"), id="table first"),
        pytest.param(f"application/json,{TABLE}", Media(), id="plain first"),
        pytest.param(
            "application/json;as=Table;v=v1alpha9;g=meta.k8s.io,application/json", Media(), id="unknown table version"
        ),
        pytest.param("application/vnd.kubernetes.protobuf,application/json", Media(), id="protobuf is not written"),
        pytest.param("application/yaml", Media("application/yaml"), id="yaml"),
        pytest.param("application/json;pretty=1", Media(pretty=True), id="pretty by parameter"),
    ],
)
def test_choose_media(accept: str, expected: Media) -> None:
    assert choose_media(asking(accept)) == expected


@pytest.mark.parametrize("accept", ["text/html", "application/vnd.kubernetes.protobuf", "application/json;as=Poem"])
def test_nothing_in_common_is_not_acceptable(accept: str) -> None:
    with pytest.raises(ApiError) as refusal:
        choose_media(asking(accept))

    assert refusal.value.code == 406


def test_pretty_parameter_indents_the_response() -> None:
    assert choose_media(asking("", agent="curl/8")).pretty
    assert choose_media(asking("", pretty="true")).pretty
    assert not choose_media(asking("", agent="curl/8", pretty="false")).pretty


def test_warnings_are_sent_once_and_cannot_break_headers() -> None:
    headers = warning_headers(["a\r\nSet-Cookie: x", "twice", "twice", 'say "no"'])

    assert headers == (
        ("Warning", '299 - "a  Set-Cookie: x"'),
        ("Warning", '299 - "twice"'),
        ("Warning", '299 - "say \\"no\\""'),
    )


def test_warnings_are_bounded_in_total() -> None:
    headers = warning_headers([f"{number:03}" + "x" * 1000 for number in range(100)])

    assert sum(len(value) for _, value in headers) < 5000
