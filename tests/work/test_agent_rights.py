"""An agent with the rights that it is shipped with does all that works ask of it in a namespace."""

from __future__ import annotations

from tests.helpers.fleet import AGENT, account_identity, grant_shipped_rights
from tests.work.test_executor import executor, may
from tests.work.work_environment import WorkEnvironment

from watchword.api.resources import APPLIED_MANIFEST_WORKS
from watchword.testing.eventually import eventually, is_gone


async def test_shipped_rights_suffice_to_apply_correct_and_remove(site: WorkEnvironment) -> None:
    await grant_shipped_rights(site.client)
    await site.plane.controllers("clusterrole-aggregation-controller")  # makes the role admin what it is
    await may(site, ["*"], ["configmaps"])
    site.start(client=site.plane.fresh_client(*account_identity(AGENT)), hub=site.client)

    await site.has("w", site.config_map("one"), site.config_map("two"))
    await site.has("v", site.config_map("three"), executor=executor(site))
    await site.applied("w")
    await site.applied("v")
    await site.changes("w", site.config_map("one", {"a": "2"}))
    await site.until("one", lambda obj: obj["data"] == {"a": "2"})
    await site.removes("w")

    await eventually(site.client, APPLIED_MANIFEST_WORKS, site.record_key("w"), is_gone, within=60)
    assert await site.find("one") is None
    assert await site.find("two") is None
    assert await site.find("three") is not None
