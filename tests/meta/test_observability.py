"""Dashboard and alert rules use only metrics that the processes export."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from watchword.accounts.metrics import WHERE, HubAccountMetrics
from watchword.api import yaml
from watchword.cli.main import COMMANDS
from watchword.health.finding import FindingMetrics
from watchword.pullsecrets.registry_auth import token_counter
from watchword.pullsecrets.settings import PullSecretMetrics
from watchword.runtime.metrics import Metrics, TokenRefreshMetrics

FOLDER = Path(__file__).parents[2] / "deploy" / "observability"
ALERTS, DASHBOARD = FOLDER / "alerts.yaml", FOLDER / "dashboard.json"
NAMED = re.compile(r"\bwatchword_[a-z_]+")


def measured() -> set[str]:
    """Return every series that a process may show, as Prometheus names it."""
    metrics = Metrics()
    metrics.credentials.rotation_failed("nothing", "asked for")  # made when first asked for
    FindingMetrics(metrics.registry)
    PullSecretMetrics(metrics.registry, now=lambda: datetime.now(UTC))
    token_counter(metrics.registry)
    HubAccountMetrics(metrics.registry, now=lambda: datetime.now(UTC))
    TokenRefreshMetrics(metrics.registry, "account", WHERE)
    names: set[str] = set()
    for family in metrics.registry.families:
        counted = {f"{family.name}_total"} if family.kind == "counter" else set()
        spread = {f"{family.name}_{part}" for part in ("bucket", "sum", "count")}
        names |= counted or (spread if family.kind == "histogram" else {family.name})
    return names


def expressions() -> list[str]:
    """Return every query of the rules and of the dashboard."""
    rules = yaml.load(ALERTS.read_text())
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    panels = json.loads(DASHBOARD.read_text())["panels"]
    return asked + [target["expr"] for panel in panels for target in panel["targets"]]


def test_every_metric_in_alerts_and_dashboards_exists() -> None:
    asked = {name for expression in expressions() for name in NAMED.findall(expression)}

    assert asked
    assert asked - measured() == set()


def test_the_dashboard_shows_every_metric() -> None:
    shown = NAMED.findall(DASHBOARD.read_text())
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in measured()}

    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown} >= families


def test_every_alert_says_what_to_do() -> None:
    rules = [rule for group in yaml.load(ALERTS.read_text())["groups"] for rule in group["rules"]]

    assert len({rule["alert"] for rule in rules}) == len(rules)
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        for verb in re.findall(r"\bwatchword ([a-z-]+)", rule["annotations"]["description"]):
            assert verb in COMMANDS


def test_panels_neither_overlap_nor_share_an_id() -> None:
    panels = json.loads(DASHBOARD.read_text())["panels"]
    cells = [
        (x, y)
        for position in (panel["gridPos"] for panel in panels)
        for x in range(position["x"], position["x"] + position["w"])
        for y in range(position["y"], position["y"] + position["h"])
    ]

    assert len(cells) == len(set(cells))
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_prometheus_accepts_the_rules() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed (Debian: apt install prometheus)")

    checked = subprocess.run([promtool, "check", "rules", str(ALERTS)], capture_output=True, text=True, check=False)

    assert checked.returncode == 0, checked.stdout + checked.stderr
