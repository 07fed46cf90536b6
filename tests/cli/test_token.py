from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest

from watchword.api import yaml
from watchword.cli.main import run
from watchword.cli.output import format_document, render_table
from watchword.cli.token import COLUMNS, format_duration_left, token_document, token_row
from watchword.discovery.token_secret import TokenRecord, TokenUsage
from watchword.discovery.tokens import BootstrapToken, BootstrapTokenLimits

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TOKEN = BootstrapToken.parse("x7k2m9.q8w3e5r1t0y6u4i2")
RECORD = TokenRecord(
    TOKEN,
    expires=NOW + timedelta(hours=23),
    description="for the edge",
    groups=("system:bootstrappers:edge",),
    limits=BootstrapTokenLimits(("edge-*",), 2),
)


def test_generate_prints_one_token(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["token", "generate"]) == 0
    BootstrapToken.parse(capsys.readouterr().out.strip())


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        pytest.param(["create", "abcdef.0123456789abcdef"], "printed in manuals", id="a token from a manual"),
        pytest.param(["create", "short"], "malformed", id="a malformed token"),
        pytest.param(["create", "@/dev/null"], "is empty", id="an empty file, and not a random token"),
        pytest.param(["create", "--usages", "all"], "'all' is not a usage", id="an unknown usage"),
        pytest.param(["create", "--ttl", "1d"], "24h, 90m", id="an unknown unit"),
        pytest.param(["create", "--max-uses", "0"], "max-uses", id="no use at all"),
        pytest.param(["create", "-o", "jsonpath={range .a}"], "is not supported", id="a template that is no path"),
        pytest.param(["create", "-o", "jsonpath={.a[}"], "not understood", id="a malformed path"),
        pytest.param(["delete", "nonsense"], "token id", id="no id"),
        pytest.param(["delete"], "Missing argument", id="nothing to delete"),
    ],
)
def test_wrong_arguments_are_refused_before_any_server_is_asked(
    argv: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["token", *argv]) != 0
    shown = capsys.readouterr()
    assert complaint in " ".join(shown.err.split())
    assert shown.out == ""


def test_row_hides_the_secret_unless_requested() -> None:
    assert token_row(RECORD, NOW, secrets=False)[0] == "x7k2m9.***"
    assert token_row(RECORD, NOW, secrets=True) == (
        "x7k2m9.q8w3e5r1t0y6u4i2",
        "23h",
        "2026-03-01T23:00:00Z",
        "authentication,signing",
        "for the edge",
        "system:bootstrappers:edge",
        "edge-*",
        "2",
    )


def test_absent_fields_of_a_token_have_placeholders() -> None:
    row = token_row(TokenRecord(TOKEN, usages=()), NOW, secrets=False)
    assert row[1:] == ("<forever>", "<never>", "<none>", "<none>", "<none>", "<any>", "<any>")


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_have_the_fields_that_kubeadm_prints(form: str) -> None:
    text = format_document(token_document(RECORD, secrets=True), form)
    assert (json.loads(text) if form == "json" else yaml.load(text)) == {
        "kind": "BootstrapToken",
        "apiVersion": "output.kubeadm.k8s.io/v1alpha3",
        "token": TOKEN.reveal(),
        "description": "for the edge",
        "expires": "2026-03-01T23:00:00Z",
        "usages": [TokenUsage.AUTHENTICATION, TokenUsage.SIGNING],
        "groups": ["system:bootstrappers:edge"],
        "allowedClusters": ["edge-*"],
        "maxUses": 2,
    }
    assert "q8w3" not in format_document(token_document(RECORD, secrets=False), form)


@pytest.mark.parametrize(
    ("left", "shown"),
    [
        (timedelta(seconds=-1), "<expired>"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=5), "5m"),
        (timedelta(minutes=5, seconds=3), "5m3s"),
        (timedelta(minutes=179), "179m"),
        (timedelta(hours=23, minutes=59), "23h"),
        (timedelta(days=10), "10d"),
    ],
)
def test_time_left_is_short(left: timedelta, shown: str) -> None:
    assert format_duration_left(left) == shown


@pytest.mark.parametrize("width", [60, 80, 140])
def test_a_table_shortens_words_but_no_token_and_is_whole_in_a_pipe(width: int) -> None:
    rows = [token_row(RECORD, NOW, secrets=True)]
    shown = render_table(COLUMNS, rows, width=width)
    assert all(cell in shown for cell in rows[0][:2])  # token and time left are whole at any width
    assert all(len(line) <= width for line in shown.splitlines())
    assert "system:bootstrappers:edge" in render_table(COLUMNS, rows)
