"""What a binding allows, and what is read from kubeconfigs of unknown origin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from watchword.admin.errors import InvalidInput
from watchword.admin.revoke.holders import advise, read_held_entries
from watchword.admin.revoke.kinds import choose_access, subject_identity
from watchword.api.meta import Object, ObjectKey
from watchword.api.yaml import dump
from watchword.kube.access_reviews import UserIdentity

LEASES: Object = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases/status"], "verbs": ["update"]}


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        pytest.param([], None, id="no rule"),
        pytest.param([{"nonResourceURLs": ["/healthz"], "verbs": ["get"]}], None, id="no resource"),
        pytest.param([LEASES], ("update", "coordination.k8s.io", "leases", "status", ""), id="subresource"),
        pytest.param([{**LEASES, "resourceNames": ["a"]}], ("update", LEASES["apiGroups"][0], "leases", "status", "a")),
        pytest.param(
            [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], ("get", "", "configmaps", "", ""), id="anything"
        ),
    ],
)
def test_choose_access(rules: list[Object], expected: tuple[str, ...] | None) -> None:
    access = choose_access(rules, "edge")
    if expected is None:
        assert access is None
        return
    assert access is not None
    found = (access.verb, access.resource.group, access.resource.plural, access.subresource, access.key.name)
    assert found == expected
    assert access.key == ObjectKey("edge", expected[4])


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ({"kind": "Group", "name": "g"}, UserIdentity("", groups=("g",))),
        ({"kind": "User", "name": "u"}, UserIdentity("u")),
        ({"kind": "ServiceAccount", "namespace": "n", "name": "a"}, UserIdentity("system:serviceaccount:n:a")),
    ],
)
def test_subject_identity(subject: Object, expected: UserIdentity) -> None:
    assert subject_identity(subject) == expected


def kubeconfig(path: Path, **user: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dump({"apiVersion": "v1", "kind": "Config", "users": [{"name": "me", "user": user}]}))
    return path


def test_token_beside_the_kubeconfig_is_read(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abcdef.0123456789abcdef\n")
    (entry,) = read_held_entries(kubeconfig(tmp_path / "config", tokenFile="token"))
    assert entry.token is not None
    assert entry.token.reveal() == "abcdef.0123456789abcdef"
    assert "0123456789abcdef" not in repr(entry)


def test_file_outside_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "own-token").write_text("abcdef.0123456789abcdef")
    kubeconfig(tmp_path / "laptop" / "config", tokenFile="../own-token")
    (entry,) = read_held_entries(tmp_path / "laptop")
    assert entry.credential is None
    assert "is not read" in entry.unreadable


def test_plugin_is_not_run(tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(tmp_path / "plugin")}
    (entry,) = read_held_entries(kubeconfig(tmp_path / "config", exec={**plugin, "interactiveMode": "Never"}))
    assert entry.credential is None
    assert "is not run" in entry.unreadable


def test_links_and_files_that_are_no_kubeconfig_are_skipped(tmp_path: Path) -> None:
    target = kubeconfig(tmp_path / "elsewhere", token="outside")
    folder = tmp_path / "laptop"
    kubeconfig(folder / "deep" / "config", token="inside")
    (folder / "link").symlink_to(target)
    (folder / "image").write_bytes(b"\x89PNG users")
    assert [entry.path.name for entry in read_held_entries(folder)] == ["config"]


@pytest.mark.parametrize("content", [b"", b"users: [", b"apiVersion: v1\nkind: Config\n"])
def test_file_without_a_user_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="kubeconfig"):
        read_held_entries(path)


@pytest.mark.parametrize(
    ("who", "advice"),
    [
        (UserIdentity("system:serviceaccount:apps:web"), "kubectl delete serviceaccount web -n apps"),
        (UserIdentity("admin", groups=("system:masters",)), "replace the authority"),
        (UserIdentity("jane", groups=("dev",)), "remove jane and its groups"),
    ],
)
def test_what_cannot_be_revoked_has_a_next_step(who: UserIdentity, advice: str) -> None:
    assert advice in advise(who)
