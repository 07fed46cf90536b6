from __future__ import annotations

from watchword.runtime.metrics import OTHER, CredentialMetrics, LabelBudget, Metrics, ReconcileResult, RemainingLife
from watchword.runtime.prometheus import CollectorRegistry


def test_a_label_with_too_many_values_ends_in_other() -> None:
    budget = LabelBudget(2)

    assert [budget.value(name) for name in ("a", "b", "c", "a")] == ["a", "b", OTHER, "a"]


def test_a_place_given_back_can_be_taken_again() -> None:
    budget = LabelBudget(1)
    budget.value("a")
    budget.forget("a")

    assert budget.value("b") == "b"


def test_reconciles_are_counted_by_how_they_ended() -> None:
    metrics = Metrics()

    metrics.controller("lease").observe(ReconcileResult.DONE, 0.01)

    labels = {"controller": "lease", "result": "done"}
    assert metrics.registry.get_sample_value("watchword_reconcile_total", labels) == 1


def test_two_processes_in_one_do_not_share_series() -> None:
    first, second = Metrics(), Metrics()

    first.leading.set(1)

    assert second.registry.get_sample_value("watchword_leading") == 0


def test_three_thousand_clusters_cost_few_series_each() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry)

    for number in range(5000):
        metrics.credentials.watch_expiry("cluster", f"c{number}", lambda: RemainingLife(60, 0.5))
        metrics.credentials.rotation_failed("cluster", f"reason {number}")
        metrics.denied(f"reason {number}")
        metrics.field_conflict(f"manager {number}")

    lines = [line for line in registry.exposition().decode().splitlines() if not line.startswith("#")]
    assert len(lines) < 2 * 3000 + 500


def test_a_credential_that_is_gone_leaves_no_series() -> None:
    registry = CollectorRegistry()
    metrics = CredentialMetrics(registry)
    metrics.watch_expiry("cluster", "edge", lambda: RemainingLife(60, 0.5))

    metrics.forget("cluster", "edge")

    labels = {"kind": "cluster", "cluster": "edge"}
    for name in ("watchword_credential_expires_seconds", "watchword_credential_remaining_ratio"):
        assert registry.get_sample_value(name, labels) is None
