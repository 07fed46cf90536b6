"""Renders every metric that our processes show, with what it says."""

from __future__ import annotations

from datetime import UTC, datetime

from watchword.accounts.metrics import WHERE, HubAccountMetrics
from watchword.health.finding import FindingMetrics
from watchword.pullsecrets.registry_auth import token_counter
from watchword.pullsecrets.settings import PullSecretMetrics
from watchword.runtime.metrics import Metrics, TokenRefreshMetrics
from watchword.runtime.prometheus import CollectorRegistry, MetricFamily, Series

INTRODUCTION = """# Metrics

Rendered from the code by `make docs`. Hub, agent and operator serve `/metrics` beside `/healthz` and `/readyz` where
`--listen` says; the manifests use port 8000. Labels are bounded: what comes after their budget is counted as `other`.
A dashboard for Grafana and alert rules for Prometheus are in `deploy/observability`.

`kind` is `cluster` for the agent's own credential; renewals of add-ons are counted under `addon-token` and
`addon-csr`, by how the credential is obtained, and `addon` is the one of a cluster that ends first; `authority` and
`join-token` are of the hub, `server-authority` and `server-certificate` of its gRPC server. `reason` of
`watchword_denied_total` is that of the event which tells about the refusal ([reasons](conditions.md)).

The embedded control plane serves `/metrics` at its API address to users who may `get` that path, such as members of
`system:monitoring`: `watchword_apiserver_background_task_healthy`, `_runs_total` and `_failures_total` by `task`
(`compaction`, `certificate-renewal`, and `audit-log` where there is one).

The metrics of pull secrets are those of the process that leads; [their objectives](../slo-pull-secrets.md) use them.
`watchword registry-auth` shows `watchword_registry_token_total`.

`watchword dashboard` shows `watchword_findings`, from the rules of `status --check`; one pull secret is one finding.

Of managed service accounts, the hub shows how they stand, and the add-on's agent on each cluster shows its refreshes.
"""


def render_metrics() -> str:
    """Return the page."""
    registry = CollectorRegistry()
    metrics = Metrics(registry)
    assert metrics.credentials is metrics.credentials  # made when first asked for
    FindingMetrics(registry)
    PullSecretMetrics(registry, now=lambda: datetime.now(UTC))
    token_counter(registry)
    HubAccountMetrics(registry, now=lambda: datetime.now(UTC))
    TokenRefreshMetrics(registry, "account", WHERE)
    rows = [_row(family) for family in registry.families]
    return "\n".join([INTRODUCTION, *sorted(rows), ""])


def _row(family: MetricFamily[Series]) -> str:
    named = "".join(f", `{label}`" for label in family.label_names)
    return f"- `{family.shown_name}` ({family.kind}{named}): {family.documentation}"
