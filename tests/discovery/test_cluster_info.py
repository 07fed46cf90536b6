from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api import yaml
from watchword.api.validation import validate_server_address
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info, write_cluster_info
from watchword.discovery.discovery_document import parse_endpoint
from watchword.discovery.errors import ClusterInfoRefused, SourceRefused
from watchword.pki.authority import Authority

NOW = datetime(2026, 3, 1, tzinfo=UTC)
CA, OTHER = Authority.make("a-ca", now=NOW).certificate, Authority.make("b-ca", now=NOW).certificate
INFO = ClusterInfo(("https://hub.example:6443",), (CA,))
Document = dict[str, Any]


@pytest.mark.parametrize(
    "info",
    [
        pytest.param(INFO, id="one address"),
        pytest.param(ClusterInfo(("https://a:1", "https://b:2", "https://[::1]:3"), (CA, OTHER)), id="a set, a bundle"),
    ],
)
def test_a_cluster_info_is_read_back_as_written(info: ClusterInfo) -> None:
    assert read_cluster_info(write_cluster_info(info)) == info


def test_the_form_is_the_one_kubeadm_writes() -> None:
    data = base64.b64encode(CA.pem).decode()
    assert write_cluster_info(INFO) == (
        "apiVersion: v1\nclusters:\n- cluster:\n"
        f"    certificate-authority-data: {data}\n    server: https://hub.example:6443\n  name: ''\n"
        "contexts: null\ncurrent-context: ''\nkind: Config\npreferences: {}\nusers: null\n"
    )


def _cluster(document: Document) -> Document:
    inner: Document = document["clusters"][0]["cluster"]
    return inner


def _set(field: str, value: Any) -> Callable[[Document], None]:
    return lambda document: document.update({field: value})


def _set_cluster(field: str, value: Any) -> Callable[[Document], None]:
    return lambda document: _cluster(document).update({field: value})


def _extension(**entry: Any) -> Callable[[Document], None]:
    return _set_cluster("extensions", [entry])


USER = {"name": "", "user": {"token": "x"}}
OURS = "watchword.dev/endpoints"


@pytest.mark.parametrize(
    ("spoil", "field"),
    [
        pytest.param(_set("users", [USER]), "users", id="a token"),
        pytest.param(_set("users", [{"name": "", "user": {"exec": {"command": "sh"}}}]), "users", id="a command"),
        pytest.param(_set("contexts", [{"name": "x"}]), "contexts", id="a context"),
        pytest.param(_set("current-context", "x"), "current-context", id="a current context"),
        pytest.param(_set("preferences", {"colors": True}), "preferences", id="preferences"),
        pytest.param(_set("extensions", [{"name": "x"}]), "extensions", id="extensions of the file"),
        pytest.param(_set("kind", "Secret"), "kind", id="another kind"),
        pytest.param(_set("clusters", []), "clusters", id="no cluster"),
        pytest.param(_set("clusters", None), "clusters", id="clusters is null"),
        pytest.param(_set("clusters", {"a": 1}), "clusters", id="clusters is a mapping"),
        pytest.param(_set("clusters", [1]), "clusters[0].cluster", id="the cluster is a number"),
        pytest.param(lambda d: d["clusters"].append(d["clusters"][0]), "clusters", id="two clusters"),
        pytest.param(lambda d: d["clusters"][0].update(name="prod"), "clusters[0].name", id="a name"),
        pytest.param(lambda d: d["clusters"][0].update(name=[]), "clusters[0].name", id="a list as a name"),
        pytest.param(_set_cluster("insecure-skip-tls-verify", True), "insecure-skip-tls-verify", id="insecure"),
        pytest.param(_set_cluster("certificate-authority", "/etc/ca"), "certificate-authority", id="a file path"),
        pytest.param(_set_cluster("proxy-url", "http://evil"), "proxy-url", id="a proxy"),
        pytest.param(_set_cluster("tls-server-name", "evil"), "tls-server-name", id="another server name"),
        pytest.param(_set_cluster("server", "http://hub"), "server", id="plain http"),
        pytest.param(_set_cluster("server", "https://u:p@hub"), "server", id="a password in the address"),
        pytest.param(_set_cluster("server", "https://hub?x=1"), "server", id="a query in the address"),
        pytest.param(_set_cluster("server", None), "server", id="no address"),
        pytest.param(_set_cluster("certificate-authority-data", "%%"), "authority-data", id="not base64"),
        pytest.param(_set_cluster("certificate-authority-data", "aGk=é"), "authority-data", id="beyond ASCII"),
        pytest.param(_set_cluster("certificate-authority-data", "aGk="), "authority-data", id="no certificate"),
        pytest.param(_set_cluster("certificate-authority-data", [1]), "authority-data", id="a list"),
        pytest.param(_set_cluster("certificate-authority-data", ""), "authority-data", id="no authority"),
        pytest.param(_extension(name="other", extension={}), "extensions", id="extension of another program"),
        pytest.param(_extension(name=OURS, extension=[]), "extensions", id="an extension of another form"),
        pytest.param(_extension(name=OURS, extension={"servers": ["http://x"]}), "extensions", id="http among them"),
        pytest.param(_extension(name=OURS, extension={"servers": ["https://x"] * 99}), "extensions", id="too many"),
    ],
)
def test_anything_but_one_unnamed_cluster_is_refused_by_field(spoil: Callable[[Document], None], field: str) -> None:
    document: Document = yaml.load(write_cluster_info(INFO))
    spoil(document)
    with pytest.raises(ClusterInfoRefused) as refusal:
        read_cluster_info(yaml.dump(document))
    assert refusal.value.field.endswith(field)


@pytest.mark.parametrize("text", ["", "[]", "a: [", "a: &a [*a]", "x" * 2_000_000, b"\xff", "- 1"])
def test_a_hostile_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(ClusterInfoRefused):
        read_cluster_info(text)


def test_without_an_authority_the_systems_roots_are_meant_where_that_is_allowed() -> None:
    text = write_cluster_info(ClusterInfo(("https://hub.example",), ()))
    assert read_cluster_info(text, ca_required=False).authorities == ()


FIELDS = st.sampled_from(["server", "name", "cluster", "token", "user", "exec", "extensions", "x"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.text(max_size=8),
    lambda value: st.lists(value, max_size=2) | st.dictionaries(FIELDS, value, max_size=3),
)


@given(
    top=st.dictionaries(
        st.sampled_from(["users", "contexts", "preferences", "current-context", "x"]), VALUES, max_size=2
    ),
    inner=st.dictionaries(
        st.sampled_from(["proxy-url", "tls-server-name", "extensions", "server", "y"]), VALUES, max_size=2
    ),
)
@settings(max_examples=60)
def test_what_is_accepted_holds_only_addresses_and_authorities(top: Document, inner: Document) -> None:
    document: Document = yaml.load(write_cluster_info(INFO))
    document.update(top)
    _cluster(document).update(inner)
    try:
        accepted = read_cluster_info(yaml.dump(document))
    except ClusterInfoRefused:
        return
    assert accepted.authorities == (CA,)
    assert all(validate_server_address(endpoint) == "" for endpoint in accepted.endpoints)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("hub.example:6443", "https://hub.example:6443"),
        ("hub.example", "https://hub.example:6443"),
        ("10.0.0.1:443", "https://10.0.0.1:443"),
        ("::1", "https://[::1]:6443"),
        ("[::1]:8443", "https://[::1]:8443"),
        ("https://hub.example:6443/k8s/clusters/a/", "https://hub.example:6443/k8s/clusters/a"),
    ],
)
def test_addresses_are_parsed_in_all_usual_forms(text: str, url: str) -> None:
    assert parse_endpoint(text) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://hub",
        "hub:99999",
        "hub:x",
        "a b",
        "hub/../x",
        "user@hub",
        "hub?x",
        "hub#x",
        "hüb",
        "hub\n",
        "-x",
        "https://",
    ],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(SourceRefused, match="HOST:PORT"):
        parse_endpoint(text)
