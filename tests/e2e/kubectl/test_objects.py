"""kubectl creates, reads, changes and removes objects, and prints what it prints on a real cluster."""

from __future__ import annotations

from pathlib import Path

import orjson
import yaml
from tests.e2e.kubectl.conftest import NAMESPACE, Kubectl

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "red"}}


def changed(**data: str) -> dict[str, object]:
    return {**CONFIG, "data": data}


def test_objects_are_created_and_shown_in_every_form(kubectl: Kubectl) -> None:
    assert kubectl("create", "configmap", "made", "--from-literal=a=b") == "configmap/made created\n"
    assert kubectl("create", "secret", "generic", "hidden", "--from-literal=k=v") == "secret/hidden created\n"

    assert kubectl("get", "configmap", "made", "-o", "name") == "configmap/made\n"
    assert orjson.loads(kubectl("get", "cm", "made", "-o", "json"))["data"] == {"a": "b"}
    assert yaml.safe_load(kubectl("get", "secret/hidden", "-o", "yaml"))["data"] == {"k": "dg=="}
    header, row = kubectl("get", "secrets", "hidden", "-o", "wide").splitlines()
    assert header.split() == ["NAME", "TYPE", "DATA", "AGE"]
    assert row.split()[:3] == ["hidden", "Opaque", "1"]
    assert kubectl("get", "cm", "made", "-o", "jsonpath={.data.a}") == "b"
    again = kubectl.attempt("create", "configmap", "made")
    assert again.stderr == 'error: failed to create configmap: configmaps "made" already exists\n'


def test_missing_object_gets_the_usual_not_found(kubectl: Kubectl) -> None:
    assert kubectl.attempt("get", "cm", "none").stderr == (
        'Error from server (NotFound): configmaps "none" not found\n'
    )
    assert kubectl.attempt("get", "pods").stderr == f"No resources found in {NAMESPACE} namespace.\n"
    assert 'the server doesn\'t have a resource type "gadgets"' in kubectl.attempt("get", "gadgets").stderr


def test_kind_that_is_not_served_is_named(kubectl: Kubectl) -> None:
    gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "x"}}
    for command in (["apply"], ["apply", "--server-side"], ["create"]):
        refused = kubectl.attempt(*command, "-f", "-", stdin=gadget)
        assert 'no matches for kind "Gadget" in version "example.com/v1"' in refused.stderr


def test_apply_creates_keeps_and_changes(kubectl: Kubectl) -> None:
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/settings created\n"
    assert kubectl("apply", "-f", "-", stdin=CONFIG) == "configmap/settings unchanged\n"
    difference = kubectl.attempt("diff", "-f", "-", stdin=changed(colour="blue", size="9"))
    assert difference.returncode == 1
    assert "-  colour: red" in difference.stdout
    assert "+  colour: blue" in difference.stdout
    assert kubectl("apply", "-f", "-", stdin=changed(size="9")) == "configmap/settings configured\n"
    assert orjson.loads(kubectl("get", "cm", "settings", "-o", "json"))["data"] == {"size": "9"}


def test_server_side_apply_reports_field_managers(kubectl: Kubectl) -> None:
    mine = {**changed(colour="red"), "metadata": {"name": "shared"}}
    theirs = {**changed(colour="blue"), "metadata": {"name": "shared"}}

    assert kubectl("apply", "--server-side", "-f", "-", stdin=mine) == "configmap/shared serverside-applied\n"
    refused = kubectl.attempt("apply", "--server-side", "--field-manager=other", "-f", "-", stdin=theirs)
    assert 'Apply failed with 1 conflict: conflict with "kubectl": .data.colour' in refused.stderr
    kubectl("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-", stdin=theirs)

    assert kubectl("get", "cm", "shared", "-o", "jsonpath={.data.colour}") == "blue"


def test_unknown_fields_are_refused_before_anything_is_stored(kubectl: Kubectl) -> None:
    wrong = {**CONFIG, "metadata": {"name": "wrong"}, "bogus": 1}

    refused = kubectl.attempt("apply", "-f", "-", stdin=wrong)

    assert "strict decoding error: unknown field" in refused.stderr
    assert kubectl.attempt("get", "cm", "wrong").returncode == 1


def test_patches_of_all_kinds_labels_and_annotations(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "patched", "--from-literal=a=1")

    assert kubectl("patch", "cm", "patched", "-p", '{"data":{"b":"2"}}') == "configmap/patched patched\n"
    kubectl("patch", "cm", "patched", "--type=merge", "-p", '{"data":{"a":null}}')
    kubectl("patch", "cm", "patched", "--type=json", "-p", '[{"op":"add","path":"/data/c","value":"3"}]')
    assert kubectl("label", "cm", "patched", "tier=front") == "configmap/patched labeled\n"
    assert kubectl("annotate", "cm", "patched", "why=because") == "configmap/patched annotated\n"

    shown = orjson.loads(kubectl("get", "cm", "-l", "tier=front", "-o", "json"))["items"][0]
    assert shown["data"] == {"b": "2", "c": "3"}
    assert shown["metadata"]["annotations"] == {"why": "because"}
    assert kubectl("label", "cm", "patched", "tier-") == "configmap/patched unlabeled\n"


def test_edit_opens_the_object_and_stores_what_was_saved(kubectl: Kubectl, tmp_path: Path) -> None:
    kubectl("create", "configmap", "edited", "--from-literal=word=before")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/word: before/word: after/" "$1"\n')
    editor.chmod(0o700)

    assert kubectl("edit", "cm", "edited", environment={"EDITOR": str(editor)}) == "configmap/edited edited\n"

    assert kubectl("get", "cm", "edited", "-o", "jsonpath={.data.word}") == "after"


def test_describe_tells_data_and_events(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "described", "--from-literal=word=hello")

    described = kubectl("describe", "configmap", "described")

    lines = [line.split() for line in described.splitlines()]
    assert ["Name:", "described"] in lines
    assert ["Namespace:", NAMESPACE] in lines
    assert "word:\n----\nhello\n" in described
    assert ["Events:", "<none>"] in lines


def test_a_watch_shows_changes_as_they_happen(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "watched")
    watch = kubectl.start("get", "cm", "watched", "--watch", "-o", "jsonpath={.data}{'\\n'}")
    try:
        assert watch.stdout is not None
        first = watch.stdout.readline()
        kubectl("patch", "cm", "watched", "-p", '{"data":{"n":"1"}}')
        assert (first, watch.stdout.readline()) == ("\n", '{"n":"1"}\n')
    finally:
        watch.kill()
        watch.communicate()


def test_wait_and_delete_see_the_end_of_an_object(kubectl: Kubectl) -> None:
    kubectl("create", "configmap", "ending", "--from-literal=phase=done")

    assert kubectl("wait", "cm/ending", "--for=jsonpath={.data.phase}=done") == "configmap/ending condition met\n"
    assert kubectl("delete", "cm", "ending").startswith('configmap "ending" deleted')
    assert kubectl("delete", "cm", "ending", "--ignore-not-found") == ""
    kubectl("create", "namespace", "short-lived")
    assert kubectl("delete", "namespace", "short-lived") == 'namespace "short-lived" deleted\n'
    assert kubectl.attempt("get", "namespace", "short-lived").returncode == 1
