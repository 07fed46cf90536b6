"""A test that leaves a secret where it can be read fails, whatever it asserts."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers.derived_keys import derived_key
from tests.helpers.leak_search import LeakSearch, SecretLeaked

from watchword.pki.jwt import TokenSigner

KEY = derived_key(2**200 + 1).pem.reveal()
TOKEN = TokenSigner(derived_key(2**200 + 1)).sign({"sub": "system:serviceaccount:a:b"}).reveal().encode()
TESTS = """
import base64, subprocess, sys
from watchword.api.meta import ObjectKey
from watchword.api.resources import CONFIG_MAPS, SECRETS

async def write(plane, shown):
    key = ObjectKey(await plane.namespace(), "x")
    data = {"token-secret": base64.b64encode(b"0123456789abcdef").decode()}
    await plane.client().create(SECRETS, SECRETS.manifest(key, data=data))
    await plane.client().create(CONFIG_MAPS, CONFIG_MAPS.manifest(key, data={"text": shown}))

async def test_object(plane):
    await write(plane, "token abcdef.0123456789abcdef")

async def test_log(plane):
    await write(plane, "nothing")
    print('{"token": "0123456789abcdef", "event": "joined"}')

def test_arguments():
    subprocess.run([sys.executable, "-c", "", "-----BEGIN PRIVATE KEY-----"], check=True)

async def test_nothing(plane):
    await write(plane, "nothing")
    print("0123456789abcdef")  # what a command prints is for its user
"""


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(KEY, id="private key"),
        pytest.param(base64.b64encode(KEY), id="private key in base64"),
        pytest.param(TOKEN, id="token"),
        pytest.param(base64.b64encode(TOKEN), id="token in base64"),
        pytest.param(TOKEN.rpartition(b".")[2], id="signature of a token that is known"),
        pytest.param(KEY.splitlines()[1], id="line of a key that is known"),
        pytest.param(b"0123456789abcdef", id="bootstrap token that is known"),
        pytest.param(b"0123456789abcdef".hex().encode(), id="the same in hexadecimal"),
    ],
)
def test_secret_is_found(text: bytes) -> None:
    search = LeakSearch()
    data = {"tls.key": encoded(KEY), "token": encoded(TOKEN), "token-secret": encoded(b"0123456789abcdef")}
    search.learn({"metadata": {"name": "x", "namespace": "a"}, "data": {**data, "broken": None}})

    with pytest.raises(SecretLeaked, match="can be read in the log"):
        search.require_none("the log", b"before " + text + b" after")


@pytest.mark.parametrize("text", [b"abcdef", TOKEN.replace(TOKEN.split(b".")[1], b""), b"-----BEGIN CERTIFICATE-----"])
def test_public_text_is_not_taken_for_a_secret(text: bytes) -> None:
    LeakSearch().require_none("cluster-info", text)


@pytest.mark.slow
def test_tests_that_leave_a_secret_fail(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    flags = (
        "-p",
        "watchword.testing.plugin",
        "-p",
        "tests.helpers.leak_search",
        "-p",
        "no:cacheprovider",
        "-rA",
        "-o",
        "asyncio_mode=auto",
    )

    done = subprocess.run(
        [sys.executable, "-m", "pytest", *flags, "test_it.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "COLUMNS": "300", "PYTHONPATH": str(Path(__file__).parents[2])},
    )

    outcomes = dict(re.findall(r"^(?:ERROR|FAILED) test_it.py::test_(\w+)\S* - (.+)$", done.stdout, re.MULTILINE))
    assert set(outcomes) == {"object", "log", "arguments"}, done.stdout
    assert "Secret test-1/x (1) can be read in configmaps" in outcomes["object"]
    assert outcomes["log"] == "the secret of Secret test-1/x (1) can be read in the log"
    assert outcomes["arguments"] == "a private key or a token can be read in the arguments of a program"
