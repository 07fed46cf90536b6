"""Credential plugins: real programs that succeed, hang, fail and print invalid output."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.kube.credentials import Credential
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import VERSIONS, ExecCredential, ExecPlugin, choose_interactive, parse_exec_credential

NOW = datetime(2030, 1, 1, tzinfo=UTC)
Install = Callable[[str], ExecPlugin]


@pytest.fixture
def install(tmp_path: Path) -> Install:
    """Write a shell script and return the plugin that runs it."""

    def write(script: str) -> ExecPlugin:
        program = tmp_path / "plugin"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return ExecPlugin("./plugin", folder=tmp_path, interactive_mode="Never")

    return write


def answer(version: str = VERSIONS[0], **status: Any) -> str:
    return orjson.dumps({"apiVersion": version, "kind": "ExecCredential", "status": status}).decode()


def counting(folder: Path, **status: Any) -> str:
    """Return a script that counts its runs and puts the number into the token."""
    text = answer(token="token-N", **status)
    return f'echo x >> "{folder}/runs"; printf %s \'{text}\' | sed "s/N/$(wc -l < "{folder}/runs")/"'


async def token_of(source: ExecCredential) -> str:
    credential = await source.current()
    assert credential.authorization is not None
    return credential.authorization.reveal()


@pytest.mark.real_time
async def test_a_token_is_kept_until_shortly_before_it_ends(install: Install, tmp_path: Path) -> None:
    now = NOW
    expiry = rfc3339(NOW + timedelta(minutes=5))
    source = ExecCredential(install(counting(tmp_path, expirationTimestamp=expiry)), now=lambda: now)

    tokens = [await token_of(source), await token_of(source)]
    now = NOW + timedelta(minutes=4, seconds=55)
    tokens.append(await token_of(source))

    assert tokens == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]


@pytest.mark.real_time
async def test_a_rejected_token_is_renewed_once_however_many_ask(install: Install, tmp_path: Path) -> None:
    source = ExecCredential(install(counting(tmp_path)))
    rejected = await source.current()

    renewed = await asyncio.gather(*(source.renewed(rejected) for _ in range(5)))

    assert {c.authorization.reveal() for c in renewed if c and c.authorization} == {"Bearer token-2"}


@pytest.mark.real_time
async def test_the_plugin_is_asked_in_its_own_version_and_environment(install: Install) -> None:
    plugin = install('printf %s "$KUBERNETES_EXEC_INFO" > "$OUT"; echo "$REPLY_WITH"')
    out = (plugin.folder or Path()) / "out"
    environment = {"OUT": str(out), "REPLY_WITH": answer(VERSIONS[1], token="t"), "KUBERNETES_EXEC_INFO": "stale"}
    source = ExecCredential(
        ExecPlugin("./plugin", (), environment, VERSIONS[1], "Never", "", plugin.folder, provide_cluster_info=True),
        {"server": "https://h"},
    )

    assert await token_of(source) == "Bearer t"
    assert orjson.loads(out.read_bytes()) == {
        "apiVersion": VERSIONS[1],
        "kind": "ExecCredential",
        "spec": {"interactive": False, "cluster": {"server": "https://h"}},
    }


@pytest.mark.real_time
async def test_arguments_never_meet_a_shell(install: Install) -> None:
    plugin = install(f"[ \"$1\" = '$(id); true' ] && echo '{answer(token='t')}'")
    source = ExecCredential(ExecPlugin("./plugin", ("$(id); true",), folder=plugin.folder, interactive_mode="Never"))

    assert await token_of(source) == "Bearer t"


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        pytest.param("sleep 60 & sleep 60", "did not answer within 0.3 seconds", id="hangs"),
        pytest.param("echo 'log in first' >&2; exit 3", "failed with exit code 3: log in first", id="fails"),
        pytest.param("kill -9 $$", "failed with exit code -9", id="dies"),
        pytest.param("echo hunter2", "something that is not an ExecCredential", id="prints garbage"),
        pytest.param("true", "something that is not an ExecCredential", id="prints nothing"),
        pytest.param("head -c 3000000 /dev/zero", "printed more than a credential", id="prints without end"),
        pytest.param(f"echo '{answer(VERSIONS[1], token='hunter2')}'", "in another version", id="another version"),
    ],
)
async def test_a_bad_plugin_is_one_sentence_without_its_output(install: Install, script: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence) as caught:
        await ExecCredential(install(script), timeout=0.3 if "sleep" in script else 20).current()
    assert "hunter2" not in str(caught.value)


@pytest.mark.real_time
async def test_missing_plugin_error_contains_the_install_hint() -> None:
    plugin = ExecPlugin("no-such-plugin", install_hint="brew install it", interactive_mode="Never")

    with pytest.raises(ConfigError, match="no-such-plugin is not installed: brew install it"):
        await ExecCredential(plugin).current()


def test_a_certificate_is_a_credential_too() -> None:
    credential, expiry = parse_exec_credential(
        answer(clientCertificateData="c", clientKeyData="k").encode(), ExecPlugin("p")
    )

    assert credential.certificate is not None
    assert credential.certificate.key == Sensitive(b"k")
    assert expiry is None


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"clientCertificateData": "c"}, id="a certificate without a key"),
        pytest.param({"token": 7}, id="a token that is a number"),
        pytest.param({"token": "a\nb"}, id="a token of two lines"),
        pytest.param({"token": "t", "expirationTimestamp": "soon"}, id="an expiry that is no time"),
    ],
)
def test_half_a_credential_is_refused(status: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        parse_exec_credential(answer(**status).encode(), ExecPlugin("p"))


@pytest.mark.parametrize(
    ("mode", "terminal", "interactive"),
    [
        pytest.param("Never", True, False, id="never"),
        pytest.param("IfAvailable", True, True, id="at a terminal"),
        pytest.param("IfAvailable", False, False, id="without a terminal"),
        pytest.param("Always", True, True, id="always, at a terminal"),
    ],
)
def test_choose_interactive(mode: str, terminal: bool, interactive: bool) -> None:  # noqa: FBT001 - a table
    assert choose_interactive(mode, terminal=terminal) is interactive


def test_plugin_that_needs_a_terminal_is_refused_without_one() -> None:
    with pytest.raises(ConfigError, match="needs a terminal for input"):
        choose_interactive("Always", terminal=False)


VALUES: st.SearchStrategy[Any] = st.none() | st.integers(0, 9) | st.text(max_size=10)
STATUS = st.dictionaries(
    st.sampled_from(["token", "clientCertificateData", "clientKeyData", "expirationTimestamp"]), VALUES
)


@settings(max_examples=60)
@given(st.binary(max_size=50) | STATUS.map(lambda status: answer(**status).encode()))
def test_no_response_raises_anything_but_our_error(output: bytes) -> None:
    try:
        credential, _ = parse_exec_credential(output, ExecPlugin("p"))
    except ConfigError:
        return
    assert isinstance(credential, Credential)
