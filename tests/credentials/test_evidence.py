"""Which keys sign now, and when tokens of a replaced or withdrawn key get another one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from watchword.credentials.evidence import SignerTiming, SigningKeys, TokenEvidence
from watchword.credentials.lifecycle import BoundToken

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TIMING = SignerTiming(settle=5 * MINUTE, spread=10 * MINUTE)
HOUR = timedelta(hours=1)


def signed_by(key_id: str, *, issued: datetime = NOW - HOUR) -> BoundToken:
    return BoundToken("user", "uid", issued, issued + 4 * HOUR, key_id=key_id)


def test_without_any_knowledge_every_key_is_good() -> None:
    keys = SigningKeys(TIMING)

    assert keys.replacement_time(signed_by("any"), seed="a") is None


def test_token_of_a_key_that_the_server_withdrew_is_replaced_at_once() -> None:
    keys = SigningKeys(TIMING)
    keys.observe_published(frozenset({"other"}), now=NOW)

    at = keys.replacement_time(signed_by("any"), seed="a")

    assert at is not None
    assert at <= NOW


def test_token_that_was_just_issued_is_given_time() -> None:
    keys = SigningKeys(TIMING)
    keys.observe_published(frozenset({"other"}), now=NOW)

    assert keys.replacement_time(signed_by("any", issued=NOW - MINUTE), seed="a") == NOW + 4 * MINUTE


def test_key_that_signs_without_being_published_is_good() -> None:
    """The key set may be that of something else: a token would be replaced by another of the same key for ever."""
    keys = SigningKeys(TIMING)
    keys.observe_published(frozenset({"other"}), now=NOW)
    keys.observe_token("any", now=NOW + MINUTE)
    keys.observe_published(frozenset({"other"}), now=NOW + HOUR)

    assert keys.replacement_time(signed_by("any"), seed="a") is None


def test_unreadable_key_set_leaves_the_keys_as_they_were() -> None:
    keys = SigningKeys(TIMING)
    keys.observe_published(frozenset({"any"}), now=NOW)
    keys.observe_published(frozenset(), now=NOW + MINUTE)

    assert keys.replacement_time(signed_by("any"), seed="a") is None


def test_lifetime_that_the_server_lengthens_is_known_for_its_request() -> None:
    evidence, token = TokenEvidence(), signed_by("any")
    evidence.observe_issued(token, requested=HOUR, now=NOW)

    assert evidence.about(token, seed="a", requested=HOUR).issued_life == 4 * HOUR
    assert evidence.about(token, seed="a", requested=2 * HOUR).issued_life == timedelta(0)


def test_refusal_concerns_that_very_token() -> None:
    evidence = TokenEvidence()
    evidence.observe_refused(signed_by("any"), now=NOW)

    assert evidence.about(signed_by("any"), seed="a", requested=HOUR).refused
    assert not evidence.about(signed_by("any", issued=NOW), seed="a", requested=HOUR).refused


def test_both_keys_are_good_while_servers_disagree() -> None:
    keys = SigningKeys(TIMING, declared=frozenset({"new"}), published=frozenset({"old", "new"}))
    for minute in range(30):
        now = NOW + minute * MINUTE
        keys.observe_token("old" if minute % 2 else "new", now=now)
        keys.update_signing(now=now)

        assert keys.replacement_time(signed_by("old"), seed="a") is None or minute == 0
        assert keys.replacement_time(signed_by("new"), seed="a") is None


def test_token_that_only_one_server_verifies_is_good_while_its_key_signs() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old"}))
    keys.observe_token("new", now=NOW)

    assert keys.replacement_time(signed_by("new"), seed="a") is None


def test_tokens_of_a_replaced_key_are_spread_over_the_configured_time() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=NOW)
    keys.update_signing(now=NOW)
    keys.observe_token("new", now=NOW + MINUTE)
    changed = NOW + 5 * MINUTE
    keys.update_signing(now=changed)

    times = [keys.replacement_time(signed_by("old"), seed=str(number)) for number in range(10_000)]

    delays = sorted(at - changed for at in times if at is not None)
    assert len(delays) == 10_000
    assert delays[0] >= timedelta(0)
    assert delays[-1] <= TIMING.spread
    in_first_minute = sum(delay < MINUTE for delay in delays)
    assert 800 < in_first_minute < 1200


def test_token_that_is_issued_between_two_looks_begins_no_replacement() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"old", "new"}))
    keys.observe_token("old", now=NOW)
    keys.update_signing(now=NOW)
    keys.observe_token("new", now=NOW + 6 * MINUTE)

    assert keys.replacement_time(signed_by("old"), seed="a") is None

    looked = NOW + 7 * MINUTE
    keys.update_signing(now=looked)
    times = [keys.replacement_time(signed_by("old"), seed=str(number)) for number in range(1000)]
    assert min(at for at in times if at is not None) >= looked


def test_token_that_no_server_verifies_is_replaced_at_once() -> None:
    keys = SigningKeys(TIMING, published=frozenset({"new"}))
    keys.observe_token("new", now=NOW)
    keys.update_signing(now=NOW)

    at = keys.replacement_time(signed_by("old"), seed="a")
    assert at is not None
    assert at <= NOW
