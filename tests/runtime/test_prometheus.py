"""Metrics are shown as Prometheus reads them; its own parser is the judge."""

from __future__ import annotations

import math

import pytest
from prometheus_client.parser import text_string_to_metric_families

from watchword.runtime.prometheus import CollectorRegistry


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


def parse(registry: CollectorRegistry) -> dict[tuple[str, ...], float]:
    """Return every number of the page by its name and label values."""
    families = list(text_string_to_metric_families(registry.exposition().decode()))
    return {(sample.name, *sample.labels.values()): sample.value for each in families for sample in each.samples}


def test_counter_is_shown_with_its_suffix_and_type(registry: CollectorRegistry) -> None:
    counter = registry.counter("joins", "Clusters that joined", "result")

    counter.labels("done").inc()
    counter.labels("done").inc(2)

    (family,) = text_string_to_metric_families(registry.exposition().decode())
    assert (family.type, family.documentation) == ("counter", "Clusters that joined")
    assert parse(registry) == {("joins_total", "done"): 3}


def test_page_can_be_limited_to_some_metrics(registry: CollectorRegistry) -> None:
    for name in ("waiting", "working", "resting"):
        registry.gauge(name, "Keys").labels().set(1)
    registry.counter("joins", "Clusters that joined").labels().inc()

    page = registry.exposition(["waiting", "joins_total", "unknown"]).decode()

    shown = [sample.name for family in text_string_to_metric_families(page) for sample in family.samples]
    assert shown == ["waiting", "joins_total"]


def test_gauge_is_read_at_every_scrape(registry: CollectorRegistry) -> None:
    waiting: list[str] = []
    registry.gauge("waiting", "Keys that wait").labels().set_function(lambda: len(waiting))

    before = parse(registry)
    waiting.append("edge")

    assert (before, parse(registry)) == ({("waiting",): 0}, {("waiting",): 1})


def test_histogram_counts_up_to_each_bound(registry: CollectorRegistry) -> None:
    histogram = registry.histogram("seconds", "How long it took", buckets=(0.5, 10)).labels()

    for value in (0.5, 0.6, 100.0):
        histogram.observe(value)

    assert parse(registry) == {
        ("seconds_bucket", "0.5"): 1,
        ("seconds_bucket", "10.0"): 2,
        ("seconds_bucket", "+Inf"): 3,
        ("seconds_count",): 3,
        ("seconds_sum",): 101.1,
    }


@pytest.mark.parametrize("value", [math.inf, -math.inf, 0.0, -2.5, 1e-9, 1e21])
def test_every_number_is_read_back(registry: CollectorRegistry, value: float) -> None:
    registry.gauge("number", "Any number").labels().set(value)

    assert parse(registry) == {("number",): value}


def test_what_is_not_a_number_is_read_back(registry: CollectorRegistry) -> None:
    registry.gauge("number", "Not known").labels().set(math.nan)

    assert math.isnan(parse(registry)["number",])


@pytest.mark.parametrize("value", ['"', "\\", "\n", 'a"\\n\n}', "ö ☃"])
def test_label_value_is_read_back_whatever_it_holds(registry: CollectorRegistry, value: str) -> None:
    registry.gauge("labelled", "First line\nsecond \\ line", "name").labels(value).set(1)

    assert parse(registry) == {("labelled", value): 1}


def test_removed_series_is_not_shown(registry: CollectorRegistry) -> None:
    gauge = registry.gauge("left", "What is left", "cluster")
    gauge.labels("edge").set(1)

    gauge.remove("edge")

    assert parse(registry) == {}
    with pytest.raises(KeyError):
        gauge.remove("edge")


def test_series_needs_a_value_for_each_label(registry: CollectorRegistry) -> None:
    with pytest.raises(ValueError, match="left has the labels kind, cluster: give a value for each"):
        registry.gauge("left", "What is left", "kind", "cluster").labels("cluster")


def test_two_metrics_cannot_have_one_name(registry: CollectorRegistry) -> None:
    registry.gauge("left", "What is left")

    with pytest.raises(ValueError, match="there are two metrics left"):
        registry.gauge("left", "What is left")


def test_number_is_found_only_under_exactly_its_labels(registry: CollectorRegistry) -> None:
    registry.counter("joins", "Clusters that joined", "result").labels("done").inc()

    assert registry.get_sample_value("joins_total", {"result": "done"}) == 1
    assert registry.get_sample_value("joins_total") is None
    assert registry.get_sample_value("joins_total", {"result": "failed"}) is None
