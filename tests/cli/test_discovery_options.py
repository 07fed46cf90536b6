from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import click
import pytest
from msgspec.structs import replace

from watchword.cli.discovery_options import DiscoveryFlags, DiscoveryPlan, choose_plan
from watchword.cli.options import parse_duration_flag
from watchword.cli.secret_input import SecretReader
from watchword.discovery.errors import DiscoveryError
from watchword.pki.errors import PinRefused
from watchword.pki.keys import Pin

ONE, TWO = "x7k2m9.q8w3e5r1t0y6u4i2", "aaaaa1.z8w3e5r1t0y6u4i2"
PIN = "sha256:" + "a" * 64
NOTHING = DiscoveryFlags()
BY_TOKEN = DiscoveryFlags(endpoint="hub:6443", token=ONE, pins=(PIN,))
BY_FILE = DiscoveryFlags(discovery_file="hub.yaml")


def plan(flags: DiscoveryFlags, *, stdin: bytes = b"", environment: Mapping[str, str] | None = None) -> DiscoveryPlan:
    reader = SecretReader(lambda: BytesIO(stdin), environment or {})
    return choose_plan(flags, reader, timeout=timedelta(minutes=1))


@pytest.mark.parametrize(
    ("flags", "complaint"),
    [
        pytest.param(NOTHING, "say how to find", id="no method"),
        pytest.param(replace(BY_TOKEN, discovery_file="x"), "exclude each other", id="token and file"),
        pytest.param(replace(BY_FILE, discovery_token=ONE), "exclude each other", id="discovery token and file"),
        pytest.param(replace(BY_TOKEN, endpoint=""), "HOST:PORT", id="no address"),
        pytest.param(replace(BY_TOKEN, pins=()), "waives it", id="no pin"),
        pytest.param(replace(BY_TOKEN, token="-", tls_bootstrap_token="-"), "one value only", id="stdin twice"),
        pytest.param(
            replace(BY_FILE, discovery_file="-", tls_bootstrap_token="-"), "one value only", id="stdin for both"
        ),
        pytest.param(replace(BY_TOKEN, token="@/does/not/exist"), "no such file", id="a missing file"),
        pytest.param(replace(BY_TOKEN, token="@/"), "is a directory", id="a folder"),
        pytest.param(replace(BY_TOKEN, token="@/dev/null"), "/dev/null is empty", id="an empty file"),
    ],
)
def test_flags_that_name_no_method_or_several_are_refused(flags: DiscoveryFlags, complaint: str) -> None:
    with pytest.raises(click.UsageError, match=complaint):
        plan(flags, stdin=ONE.encode())


def test_standard_input_without_a_token_is_refused() -> None:
    with pytest.raises(click.UsageError, match="standard input is empty"):
        plan(replace(BY_TOKEN, token="-"), stdin=b"\n")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param(replace(BY_TOKEN, token="x"), id="a malformed token"),
        pytest.param(replace(BY_TOKEN, tls_bootstrap_token="X" * 23), id="a malformed bootstrap token"),
        pytest.param(replace(BY_TOKEN, endpoint="http://hub"), id="plain http"),
        pytest.param(replace(BY_TOKEN, pins=("sha1:aa",)), id="a malformed pin"),
    ],
)
def test_malformed_values_are_refused_by_the_packages_that_parse_them(flags: DiscoveryFlags) -> None:
    with pytest.raises((DiscoveryError, PinRefused)):
        plan(flags)


@pytest.mark.parametrize(
    ("flags", "discovery", "bootstrap"),
    [
        pytest.param(BY_TOKEN, ONE, ONE, id="one token for both"),
        pytest.param(replace(BY_TOKEN, discovery_token=TWO), TWO, ONE, id="--token is for the certificate then"),
        pytest.param(replace(BY_TOKEN, tls_bootstrap_token=TWO), ONE, TWO, id="another one for the certificate"),
        pytest.param(replace(BY_FILE, tls_bootstrap_token=TWO), None, TWO, id="a file and a bootstrap token"),
        pytest.param(BY_FILE, None, None, id="a file alone"),
    ],
)
def test_each_token_goes_to_its_purpose(flags: DiscoveryFlags, discovery: str | None, bootstrap: str | None) -> None:
    chosen = plan(flags)
    assert (chosen.by_token and chosen.by_token.token.reveal()) == discovery
    assert (chosen.tls_token and chosen.tls_token.reveal()) == bootstrap


def test_a_token_comes_from_file_standard_input_or_environment(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text(ONE + "\n")
    bare = replace(BY_TOKEN, token="")
    for chosen in (
        plan(replace(BY_TOKEN, token=f"@{path}")),
        plan(replace(BY_TOKEN, token="-"), stdin=ONE.encode()),
        plan(bare, environment={"WATCHWORD_TOKEN": ONE}),
    ):
        assert chosen.by_token is not None
        assert chosen.by_token.token.reveal() == ONE


def test_pins_may_be_repeated_or_listed() -> None:
    other = "sha256:" + "b" * 64
    for pins in ((PIN, other), (f"{PIN},{other}",)):
        chosen = plan(replace(BY_TOKEN, pins=pins)).by_token
        assert chosen is not None
        assert chosen.pins == (Pin.parse(PIN), Pin.parse(other))


@pytest.mark.parametrize("text", ["1d", "-1h", "soon", ""])
def test_other_texts_are_no_durations(text: str) -> None:
    with pytest.raises(click.BadParameter):
        parse_duration_flag(text, "--ttl")
