"""Kubeconfigs: what they mean, how they merge, and one sentence for each bad one."""

from __future__ import annotations

import base64
import json
import logging
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.names import RESTRICTED_KUBECONFIGS
from watchword.api.sensitive import Sensitive
from watchword.kube.connect import client_for_context, connect, endpoint_of, incluster_credential, incluster_endpoint
from watchword.kube.credentials import StoredCredential
from watchword.kube.errors import ConfigError
from watchword.kube.files import write_private_file
from watchword.kube.kubeconfig import ClusterEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import (
    dump_kubeconfig,
    encode_kubeconfig,
    load_kubeconfig,
    parse_kubeconfig,
    read_kubeconfig,
    write_kubeconfig,
)

MINIMAL = """
apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: {cluster: one, user: me, namespace: team}
clusters:
- name: one
  cluster: {server: "https://host:6443", tls-server-name: inner, proxy-url: "http://proxy:3128"}
users:
- name: me
  user: {token: sesame}
"""


def config(**changes: Any) -> bytes:
    cluster = {"server": "https://host:6443", **changes.get("cluster", {})}
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "c", "user": changes.get("user", {})}],
    }
    return orjson.dumps(document)


def test_a_context_leads_to_a_cluster_a_user_and_a_namespace() -> None:
    choice = parse_kubeconfig(MINIMAL.encode()).choose()

    assert choice.cluster.server == "https://host:6443"
    assert (choice.cluster.tls_server_name, choice.cluster.proxy_url) == ("inner", "http://proxy:3128")
    assert choice.user.token == Sensitive("sesame")
    assert choice.namespace == "team"
    assert "sesame" not in repr(choice)


def test_of_several_files_the_first_to_name_something_counts(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text(MINIMAL.replace("current-context: here", ""))
    second.write_text(
        MINIMAL.replace("host", "other").replace("name: me", "name: you") + "\npreferences: {colors: true}"
    )

    merged = load_kubeconfig(environment={"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"})

    assert merged.current_context == "here"
    assert merged.clusters["one"].server == "https://host:6443"
    assert sorted(merged.users) == ["me", "you"]


def test_file_names_start_at_the_folder_of_their_kubeconfig(tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_bytes(config(user={"tokenFile": "token"}, cluster={"certificate-authority": "/ca.crt"}))

    read = read_kubeconfig(path)

    assert read.users["c"].token_file == tmp_path / "token"
    assert read.clusters["c"].ca_file == Path("/ca.crt")


async def test_a_token_in_a_file_beats_one_inline_and_inline_certificates_beat_files(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    inline = base64.b64encode(b"inline").decode()
    user = {
        "token": "inline",
        "tokenFile": "token",
        "client-certificate-data": inline,
        "client-certificate": "/missing",
    }
    path = tmp_path / "config"
    path.write_bytes(config(user={**user, "client-key-data": inline}))
    entry = read_kubeconfig(path).users["c"]

    client = client_for_context(read_kubeconfig(path).choose())
    await client.close()

    assert entry.certificate_data == b"inline"
    stored = StoredCredential(token=(tmp_path / "token").read_bytes())
    assert (await stored.current()).authorization == Sensitive("Bearer from-file")


def test_an_unverified_server_is_worth_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        endpoint = endpoint_of(ClusterEntry("https://host:6443", insecure=True))

    assert endpoint.insecure
    assert "not verified" in caplog.text


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"", "is empty", id="empty"),
        pytest.param(b" \n\n", "is empty", id="blank"),
        pytest.param(b"\xff\xfe\x00", "not UTF-8", id="binary"),
        pytest.param(b"just words", "is not a mapping", id="a sentence"),
        pytest.param(b"a: [b", "not YAML", id="broken YAML"),
        pytest.param(b"a: &x [*x]", "aliases", id="recursive"),
        pytest.param(b"[" * 5000, "nested too deeply", id="deep"),
        pytest.param(b'{"a":' * 70 + b"1" + b"}" * 70, "nested too deeply", id="deep JSON"),
        pytest.param(b"a: " + b"x" * 20_000_000, "larger than", id="huge"),
        pytest.param(b"a: 1\na: 2", "twice", id="a key twice"),
        pytest.param(b'{"a": 1, "a": 2}', "twice", id="a key twice in JSON"),
        pytest.param(b"a: !!python/object:os.system {}", "not accepted", id="code"),
        pytest.param(b"a: 1\n---\nb: 2", "more than one", id="two documents"),
        pytest.param(b"kind: Pod", "another kind", id="another kind"),
        pytest.param(b"clusters: 7", "clusters has the wrong type", id="clusters that are a number"),
        pytest.param(b"clusters: [7]", "is not a mapping", id="a cluster that is a number"),
        pytest.param(config(user={"token": 7}), "token has the wrong type", id="a token that is a number"),
        pytest.param(config(cluster={"insecure-skip-tls-verify": "yes"}), "wrong type", id="a truth that is a word"),
        pytest.param(config(user={"client-key-data": "!"}), "is not base64", id="bad base64"),
        pytest.param(config(user={"auth-provider": {"name": "gcp"}}), "use an exec plugin", id="a removed provider"),
        pytest.param(config(user={"as-groups": ["g"]}), "without a user", id="a group without a user"),
        pytest.param(config(user={"exec": {"command": "x"}}), "must have apiVersion", id="a plugin without version"),
        pytest.param(
            config(user={"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1"}}),
            "must have an interactiveMode",
            id="a plugin without mode",
        ),
    ],
)
def test_a_bad_kubeconfig_is_one_sentence_that_names_the_file(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=sentence) as caught:
        read_kubeconfig(path)

    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        pytest.param(b"kind: Config", "names no current-context", id="no current context"),
        pytest.param(b"current-context: x", "no context 'x': it has none", id="an unknown context"),
        pytest.param(MINIMAL.replace("name: one", "name: two").encode(), "names cluster 'one'", id="a missing cluster"),
        pytest.param(MINIMAL.replace("name: me", "name: you").encode(), "names user 'me'", id="a missing user"),
        pytest.param(config(cluster={"server": ""}), "no server address", id="no address"),
        pytest.param(config(cluster={"server": "host:6443"}), "must be a URL", id="an address without scheme"),
        pytest.param(
            config(cluster={"server": "https://a:b@h"}), "nothing but scheme", id="an address with a password"
        ),
        pytest.param(config(cluster={"server": "https://h:x"}), "is not a URL", id="an address with a bad port"),
        pytest.param(config(cluster={"proxy-url": "socks5://h:1"}), "not supported", id="a proxy we cannot use"),
        pytest.param(config(cluster={"certificate-authority": "/no/ca"}), "cannot be read: no such", id="a missing CA"),
        pytest.param(
            config(cluster={"certificate-authority-data": "YQ==", "insecure-skip-tls-verify": True}),
            "exclude each other",
            id="a CA and no verification",
        ),
        pytest.param(config(user={"client-key-data": "YQ=="}), "a key without a certificate", id="half a pair"),
    ],
)
def test_an_unusable_context_is_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)

    with pytest.raises(ConfigError, match=sentence):
        connect(path)


def test_an_unreadable_file_is_one_sentence(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(ConfigError, match="cannot be read: no such file"):
        read_kubeconfig(tmp_path / "missing")
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_kubeconfig(tmp_path)
    with pytest.raises(ConfigError, match="is not a regular file"):
        read_kubeconfig(tmp_path / "pipe")


def test_when_no_named_file_exists_they_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none of the files in KUBECONFIG exists"):
        load_kubeconfig(environment={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"})


def test_a_written_kubeconfig_is_private_whole_and_reads_back(tmp_path: Path) -> None:
    cluster = ClusterEntry("https://host:6443", ca_data=b"pem", rest={"extensions": [{"name": "x", "extension": {}}]})
    written = Kubeconfig.single("edge", cluster, UserEntry(token=Sensitive("no: 1")), namespace="team")

    write_kubeconfig(tmp_path / "new" / "config", written)

    path = tmp_path / "new" / "config"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert read_kubeconfig(path) == written
    assert [p.name for p in path.parent.iterdir()] == ["config"]


def test_writing_through_a_link_replaces_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")

    write_private_file(tmp_path / "link", b"new")

    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_writing_through_links_of_folders_replaces_their_target(tmp_path: Path) -> None:
    (tmp_path / "real" / "inner").mkdir(parents=True)
    (tmp_path / "relative").symlink_to("real/../real/inner")
    (tmp_path / "absolute").symlink_to(tmp_path / "relative")

    write_private_file(tmp_path / "absolute" / "new" / "config", b"new")

    assert (tmp_path / "real" / "inner" / "new" / "config").read_text() == "new"


def test_link_that_leads_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")

    with pytest.raises(ConfigError, match="too many links"):
        write_private_file(tmp_path / "loop", b"new")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a link that belongs to another user")
@pytest.mark.parametrize("path", ["link", "folder/config"])
def test_link_of_another_user_is_not_followed(tmp_path: Path, path: str) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "config").write_text("precious")
    for name, target in (("link", "theirs/config"), ("folder", "theirs")):
        (tmp_path / name).symlink_to(target)
        os.chown(tmp_path / name, 12345, 12345, follow_symlinks=False)

    with pytest.raises(ConfigError, match="of another user"):
        write_private_file(tmp_path / path, b"new")

    assert (tmp_path / "theirs" / "config").read_text() == "precious"


def test_a_folder_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigError, match="cannot be written"):
        write_private_file(tmp_path / "file" / "config", b"x")


async def test_a_pod_finds_its_own_identity(tmp_path: Path) -> None:
    for name, text in (("token", "sesame\n"), ("ca.crt", "pem"), ("namespace", "team\n")):
        (tmp_path / name).write_text(text)
    address = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    environment = {**address, "WATCHWORD_SERVICE_ACCOUNT": str(tmp_path)}

    assert incluster_endpoint(environment).server == "https://[fd00::1]:443"
    assert (await incluster_credential(environment).current()).authorization == Sensitive("Bearer sesame")


def test_outside_of_a_pod_there_is_no_such_identity() -> None:
    with pytest.raises(ConfigError, match="this is not a pod"):
        incluster_endpoint({})


KEYS = st.sampled_from(
    ["clusters", "users", "contexts", "name", "cluster", "user", "context", "server", "token", "exec", "env", "args",
     "as-user-extra", "certificate-authority-data", "client-certificate", "insecure-skip-tls-verify", "current-context"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8) | KEYS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=30,
)


@settings(max_examples=60)
@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode) | VALUES.map(orjson.dumps))
def test_no_text_raises_anything_but_our_error(data: bytes) -> None:
    with suppress(ConfigError):
        read = parse_kubeconfig(data)
        for name in read.contexts:
            client_for_context(read.choose(name))


def test_kubeconfig_for_programs_is_json_so_that_they_need_no_yaml() -> None:
    written = Kubeconfig.single("hub", ClusterEntry("https://h", rest={"later": 2**70}), UserEntry())

    assert json.loads(encode_kubeconfig(written))["clusters"][0]["cluster"] == {"later": 2**70, "server": "https://h"}
    assert parse_kubeconfig(encode_kubeconfig(written)).clusters == written.clusters


ENTRIES = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1, max_size=12)


@pytest.mark.parametrize("encode", [dump_kubeconfig, encode_kubeconfig])
@settings(max_examples=40)
@given(name=ENTRIES, token=ENTRIES, ca=st.binary(max_size=20), password=st.text(max_size=8))
def test_what_is_written_is_what_is_read(
    encode: Callable[[Kubeconfig], bytes], name: str, token: str, ca: bytes, password: str
) -> None:
    user = UserEntry(token=Sensitive(token), username=name, password=Sensitive(password) if password else None)
    written = Kubeconfig.single(name, ClusterEntry("https://h", ca_data=ca), user)

    assert parse_kubeconfig(encode(written)) == written


def test_without_any_kubeconfig_the_error_says_how_to_name_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"there is no kubeconfig at .*/\.kube/config: name one with --kubeconfig"):
        load_kubeconfig(environment={"HOME": str(tmp_path)})


TENANT = {RESTRICTED_KUBECONFIGS: "1"}


@pytest.mark.parametrize(
    ("user", "sentence"),
    [
        pytest.param({"exec": {"command": "/bin/sh"}}, "is an exec plugin, which pods", id="program"),
        pytest.param({"tokenFile": "/root/admin.token"}, "tokenFile names a file outside", id="absolute"),
        pytest.param({"client-certificate": "../tls.crt"}, "names a file outside", id="upwards"),
        pytest.param({"client-key": "a/../../tls.key"}, "names a file outside", id="down and upwards"),
    ],
)
@pytest.mark.parametrize("folder", [None, Path("/pods/secret")])
def test_kubeconfig_of_a_tenant_reaches_nothing_else(user: Any, sentence: str, folder: Path | None) -> None:
    text = json.dumps({"users": [{"name": "u", "user": user}]}).encode()

    with pytest.raises(ConfigError, match=sentence):
        parse_kubeconfig(text, folder=folder, environment=TENANT)


def test_kubeconfig_of_a_tenant_finds_the_files_beside_it() -> None:
    text = json.dumps(
        {"users": [{"name": "u", "user": {"client-certificate": "tls.crt", "tokenFile": "token"}}]}
    ).encode()

    user = parse_kubeconfig(text, folder=Path("/pods/secret"), environment=TENANT).users["u"]

    assert (user.certificate_file, user.token_file) == (Path("/pods/secret/tls.crt"), Path("/pods/secret/token"))
