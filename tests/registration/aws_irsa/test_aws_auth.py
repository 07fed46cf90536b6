"""`aws-auth` is edited by many programs: none of them loses an entry, and what is not ours stays to the byte."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.registration.aws_irsa.aws_fleet import HUB, arn_of

from watchword.api import yaml
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.kube.client import Client
from watchword.registration.aws_irsa.errors import AwsAuthUnreadable
from watchword.registration.aws_irsa.identity import ClusterIdentity
from watchword.registration.aws_irsa.role_mapping import (
    AWS_AUTH,
    AwsAuthConfigMap,
    read_entries,
    with_entry,
    without_role,
)
from watchword.testing.plane import Plane

NODES = """\
# node groups: do not remove
- groups:
  - system:bootstrappers
  - system:nodes
  rolearn: arn:aws:iam::111122223333:role/nodes   # made by eksctl
  username: system:node:{{EC2PrivateDNSName}}
"""
INDENTED = """\
  - rolearn:  arn:aws:iam::111122223333:role/admins
    username: 'admin'
    groups: [system:masters]
    unknownField: {kept: true}

  # the next team
  -
    rolearn: arn:aws:iam::111122223333:role/team
    groups:
      - team
"""
FLOW = '[{"rolearn": "arn:aws:iam::111122223333:role/nodes", "groups": ["system:nodes"]}]'
FOREIGN = {"none": "", "empty list": "[]\n", "nodes": NODES, "indented": INDENTED, "in brackets": FLOW}


def identity(name: str = "edge-1") -> ClusterIdentity:
    return ClusterIdentity(name, f"uid-of-{name}", HUB, arn_of(name))


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_entry_is_added_once_and_removed_again(text: str) -> None:
    entry = identity().config_map_entry

    added = with_entry(text, entry)

    assert read_entries(added) == [*read_entries(text), dict(entry)]
    assert with_entry(added, entry) == added
    assert read_entries(without_role(added, identity().role.arn)) == read_entries(text)


@pytest.mark.parametrize("text", [NODES, INDENTED, NODES.rstrip("\n")], ids=["nodes", "indented", "no last newline"])
def test_bytes_of_others_stay(text: str) -> None:
    added = with_entry(text, identity().config_map_entry)

    assert added.startswith(text)
    assert without_role(added, identity().role.arn).rstrip("\n") == text.rstrip("\n")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("[{rolearn: a, groups: [x]}] # nodes of team b\n", id="comment"),
        pytest.param("[{rolearn: a, account: 012}]\n", id="number"),
        pytest.param("- rolearn: a # nodes of team b\n...\n", id="end of the document"),
    ],
)
def test_entry_is_not_added_where_text_of_others_would_be_lost(text: str) -> None:
    with pytest.raises(AwsAuthUnreadable, match="block list"):
        with_entry(text, identity().config_map_entry)


def test_text_that_only_one_yaml_parser_reads_is_written_anew() -> None:
    text = "[{rolearn: a\tb, groups: [x]}]"

    added = with_entry(text, identity().config_map_entry)

    assert read_entries(added) == [*read_entries(text), dict(identity().config_map_entry)]
    assert read_entries(without_role(added, identity().role.arn)) == read_entries(text)


def test_comment_before_the_next_entry_stays() -> None:
    removed = without_role(INDENTED, "arn:aws:iam::111122223333:role/admins")

    assert "# the next team" in removed
    assert [entry["rolearn"] for entry in read_entries(removed)] == ["arn:aws:iam::111122223333:role/team"]


def test_changed_and_doubled_entries_of_the_role_are_replaced() -> None:
    entry = identity().config_map_entry
    changed = yaml.dump([{**entry, "groups": ["system:masters"]}, {"rolearn": entry["rolearn"], "username": "x"}])

    repaired = with_entry(NODES + changed, entry)

    assert read_entries(repaired) == [*read_entries(NODES), dict(entry)]
    assert repaired.startswith(NODES)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("- rolearn: [unclosed\n", id="not YAML"),
        pytest.param("\t- rolearn: a\n", id="tab"),
        pytest.param("rolearn: a\n", id="no list"),
        pytest.param("- a\n- b\n", id="list of texts"),
        pytest.param("- &x {rolearn: a}\n- *x\n", id="alias"),
        pytest.param("- {rolearn: a}\n---\n- {rolearn: b}\n", id="two documents"),
    ],
)
def test_text_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(AwsAuthUnreadable, match="it is left as it is"):
        with_entry(text, identity().config_map_entry)


WORDS = st.text(alphabet="abc:/-# '\"{}[]", min_size=1, max_size=12)
ENTRIES = st.lists(st.dictionaries(st.sampled_from(["rolearn", "username", "note"]), WORDS, min_size=1), max_size=4)


@given(ENTRIES, st.booleans())
def test_entries_of_others_mean_the_same_afterwards(entries: list[dict[str, str]], brackets: bool) -> None:  # noqa: FBT001 - drawn
    text = str(entries).replace("'", '"') if brackets and "'" not in yaml.dump(entries) else yaml.dump(entries)
    try:
        before = read_entries(text)
    except AwsAuthUnreadable:
        return

    added = with_entry(text, identity().config_map_entry)

    assert read_entries(added) == [*before, dict(identity().config_map_entry)]
    assert read_entries(without_role(added, identity().role.arn)) == before


async def test_fifty_concurrent_writers_lose_nothing(plane: Plane) -> None:
    client = plane.client()
    await client.create(CONFIG_MAPS, CONFIG_MAPS.manifest(AWS_AUTH, data={"mapRoles": NODES, "mapUsers": "- {}\n"}))
    try:
        identities = [identity(f"edge-{number}") for number in range(50)]
        leaving = identities[::2]

        await asyncio.gather(*(_join(plane.fresh_client(), each, leaves=each in leaving) for each in identities))

        found = await client.get(CONFIG_MAPS, AWS_AUTH)
        arns = [entry["rolearn"] for entry in read_entries(found["data"]["mapRoles"])]
        assert sorted(arns[1:]) == sorted(each.role.arn for each in identities if each not in leaving)
        assert found["data"]["mapRoles"].startswith(NODES)
        assert found["data"]["mapUsers"] == "- {}\n"
    finally:
        await client.delete(CONFIG_MAPS, ObjectKey(AWS_AUTH.namespace, AWS_AUTH.name))


async def _join(client: Client, member: ClusterIdentity, *, leaves: bool) -> None:
    config_map = AwsAuthConfigMap(client, Random(member.cluster))
    assert await config_map.create(member)
    assert await config_map.is_correct(member)
    if leaves:
        await config_map.delete(member)
