"""The tool that counts the files of a flow counts as it says."""

from __future__ import annotations

import pytest

from tools.trace_flows import FLOWS, count_control_plane, count_domain, find_test, trace


@pytest.mark.parametrize("name", [flow.test for flow in FLOWS if flow.test])
def test_test_of_a_flow_exists_once(name: str) -> None:
    assert find_test(name).endswith(f"::{name}")


def test_general_packages_and_second_entries_do_not_count() -> None:
    paths = ["__init__.py", "hub/a.py", "api/b.py", "hub/c.py", "agent/d.py", "hub/a.py", "apiserver/e.py", "hub/f.py"]

    count = count_domain(paths)

    assert count.files == ("hub/a.py", "hub/c.py", "agent/d.py", "hub/f.py")
    assert count.switches == 2


def test_folders_of_the_control_plane_are_its_packages() -> None:
    paths = ["apiserver/a.py", "apiserver/authn/b.py", "kube/c.py", "apiserver/authn/d.py", "apiserver/a.py"]

    count = count_control_plane(paths)

    assert count.files == ("apiserver/a.py", "apiserver/authn/b.py", "apiserver/authn/d.py")
    assert count.switches == 2


def test_patch_of_a_config_map_is_traced() -> None:
    (patch,) = [flow for flow in FLOWS if not flow.test]

    count = trace(patch)

    assert all(path.startswith("apiserver/") for path in count.files)
    assert count.switches > 0
