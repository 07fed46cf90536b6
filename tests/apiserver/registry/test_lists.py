"""Lists: pages of one revision, also while others write and the past is forgotten."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

SECRETS = "/api/v1/namespaces/default/secrets"


async def fill(api: Any, count: int) -> None:
    for number in range(count):
        await api.send("POST", SECRETS, {"metadata": {"name": f"s{number:03}"}})


def names(page: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in page["items"]]


async def test_pages_show_one_revision_while_others_write(api: Any) -> None:
    await fill(api, 10)
    first = await api.ask("GET", SECRETS, limit="4")
    await api.send("DELETE", f"{SECRETS}/s005")
    await api.send("POST", SECRETS, {"metadata": {"name": "s0041"}})

    second = await api.ask("GET", SECRETS, **{"limit": "100", "continue": first["metadata"]["continue"]})

    assert names(first) + names(second) == [f"s{number:03}" for number in range(10)]
    assert first["metadata"]["remainingItemCount"] == 6
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


async def test_expired_page_is_refused_with_a_token_for_an_inconsistent_list(api: Any) -> None:
    await fill(api, 6)
    first = await api.ask("GET", SECRETS, limit="3")
    await api.send("POST", SECRETS, {"metadata": {"name": "s999"}})
    await api.plane.store.compact(api.plane.store.revision)

    refused = await api.ask("GET", SECRETS, **{"limit": "3", "continue": first["metadata"]["continue"]})
    rest = await api.ask("GET", SECRETS, **{"continue": refused["metadata"]["continue"]})

    assert (refused["code"], refused["reason"]) == (410, "Expired")
    assert names(rest) == ["s003", "s004", "s005", "s999"]


async def test_an_exact_revision_shows_the_past(api: Any) -> None:
    await fill(api, 2)
    then = await api.ask("GET", SECRETS)
    await api.send("DELETE", f"{SECRETS}/s000")

    past = await api.ask(
        "GET", SECRETS, resourceVersion=then["metadata"]["resourceVersion"], resourceVersionMatch="Exact"
    )

    assert names(past) == ["s000", "s001"]


async def test_a_revision_not_here_yet_is_waited_for(api: Any) -> None:
    wanted = str(api.plane.store.revision + 1)
    listing = asyncio.ensure_future(api.ask("GET", SECRETS, resourceVersion=wanted))
    await asyncio.sleep(1)

    await fill(api, 1)

    assert names(await listing) == ["s000"]


async def test_a_revision_that_never_comes_is_a_timeout_with_advice(api: Any) -> None:
    began = asyncio.get_running_loop().time()

    refused = await api.ask("GET", SECRETS, resourceVersion="1000000")

    assert (refused["code"], refused["reason"]) == (504, "Timeout")
    assert refused["details"]["retryAfterSeconds"] == 1
    assert asyncio.get_running_loop().time() - began == pytest.approx(3, abs=0.1)


async def test_a_selected_page_continues_without_losing_matches(api: Any) -> None:
    for number in range(9):
        labels = {"odd": str(number % 2)}
        await api.send("POST", SECRETS, {"metadata": {"name": f"s{number}", "labels": labels}})

    found: list[str] = []
    token = ""
    while True:
        page = await api.ask("GET", SECRETS, **{"limit": "2", "labelSelector": "odd=1", "continue": token})
        found += names(page)
        token = page["metadata"].get("continue", "")
        if not token:
            break

    assert found == ["s1", "s3", "s5", "s7"]
