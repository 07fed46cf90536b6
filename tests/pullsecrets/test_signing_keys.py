"""Which keys sign now, and when tokens of a replaced key get another one."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta

from watchword.pki import keys as pem
from watchword.pki.keys import PrivateKey
from watchword.pullsecrets.signing_keys import SignerTiming, SigningKeys, project_signing_key, read_key_ids

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TIMING = SignerTiming(settle=5 * MINUTE, spread=10 * MINUTE)


def test_without_any_knowledge_every_key_is_good() -> None:
    keys = SigningKeys(TIMING)

    assert keys.replacement_time("any", seed="a", now=NOW) is None


def test_key_set_alone_makes_no_key_bad() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"other"}))

    assert keys.replacement_time("any", seed="a", now=NOW) is None


def test_both_keys_are_good_while_servers_disagree() -> None:
    keys = SigningKeys(TIMING, declared=frozenset({"new"}), published=frozenset({"old", "new"}))
    for minute in range(30):
        now = NOW + minute * MINUTE
        keys.observe_token("old" if minute % 2 else "new", now=now)
        keys.update(now=now)

        assert keys.replacement_time("old", seed="a", now=now) is None or minute == 0
        assert keys.replacement_time("new", seed="a", now=now) is None


def test_token_that_only_one_server_verifies_is_good_while_its_key_signs() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old"}))
    keys.observe_token("new", now=NOW)

    assert keys.replacement_time("new", seed="a", now=NOW) is None


def test_tokens_of_a_replaced_key_are_spread_over_the_configured_time() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=NOW)
    keys.update(now=NOW)
    keys.observe_token("new", now=NOW + MINUTE)
    changed = NOW + 5 * MINUTE
    keys.update(now=changed)

    times = [keys.replacement_time("old", seed=str(number), now=changed) for number in range(10_000)]

    delays = sorted(at - changed for at in times if at is not None)
    assert len(delays) == 10_000
    assert delays[0] >= timedelta(0)
    assert delays[-1] <= TIMING.spread
    in_first_minute = sum(delay < MINUTE for delay in delays)
    assert 800 < in_first_minute < 1200


def test_token_that_is_issued_between_two_looks_begins_no_replacement() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=NOW)
    keys.update(now=NOW)
    keys.observe_token("new", now=NOW + 6 * MINUTE)

    assert keys.replacement_time("old", seed="a", now=NOW + 6 * MINUTE) is None

    looked = NOW + 7 * MINUTE
    keys.update(now=looked)
    times = [keys.replacement_time("old", seed=str(number), now=looked) for number in range(1000)]
    assert min(at for at in times if at is not None) >= looked


def test_token_that_no_server_verifies_is_replaced_at_once() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"new"}))
    keys.observe_token("new", now=NOW)
    keys.update(now=NOW)

    assert keys.replacement_time("old", seed="a", now=NOW) == NOW


def test_key_ids_are_those_of_kubernetes_whatever_the_label_of_the_block_says() -> None:
    first, second = PrivateKey.generate_rsa().public, PrivateKey.generate().public
    text = pem.armour(first.spki, "RSA PUBLIC KEY") + pem.armour(second.spki, "PUBLIC KEY")

    assert read_key_ids(base64.b64encode(text).decode()) == {first.key_id, second.key_id}


def test_unreadable_keys_are_no_keys() -> None:
    assert read_key_ids("***") == frozenset()


def test_private_key_never_enters_the_cache() -> None:
    key = PrivateKey.generate()
    data = {
        "service-account.pub": base64.b64encode(key.public.pem).decode(),
        "service-account.key": base64.b64encode(key.pem.reveal()).decode(),
    }

    kept = project_signing_key({"metadata": {"name": "key"}, "data": data})

    assert kept["keyIds"] == [key.public.key_id]
    assert data["service-account.key"] not in str(kept)
