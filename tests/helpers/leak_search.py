"""Searches what a test leaves for people and programs to read: objects, Events, log, metrics, arguments of programs.

It is a plugin of pytest: a test fails when a secret of its control plane, a key or a token can be read there. The
mark `plants_secrets` is for tests that put secrets into objects on purpose, which are not searched.
"""

import base64
import binascii
import os
import re
import secrets
import string
import sys
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest
import pytest_asyncio

from watchword.api import resources
from watchword.api.bootstrap import KEY_TOKEN_SECRET
from watchword.api.meta import Object, ObjectKey, Resource
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.testing.plane import Plane

_ALPHABET = string.ascii_lowercase + string.digits
SHORTEST = 8  # below that, a match could be chance


class SecretLeaked(AssertionError):
    """A secret was found where no secret may be; the message names the place, not the value."""


class Canary:
    """Plants secrets and recognises every encoding in which one might leak."""

    def __init__(self) -> None:
        self._planted: dict[str, tuple[bytes, ...]] = {}

    def plant(self, label: str) -> str:
        """Return a new secret; `label` is its name in a finding."""
        value = f"canary-{secrets.token_hex(16)}"
        self.look_for(label, value)
        return value

    def plant_bootstrap_token(self, label: str) -> str:
        """Return a new bootstrap token; only its second half is secret."""
        token_id, secret = ("".join(secrets.choice(_ALPHABET) for _ in range(length)) for length in (6, 16))
        self.look_for(label, secret)
        return f"{token_id}.{secret}"

    def look_for(self, label: str, value: str | bytes | Sensitive[str] | Sensitive[bytes]) -> None:
        """Treat a value that the product itself generated (a token, a key) as planted."""
        revealed = value.reveal() if isinstance(value, Sensitive) else value
        raw = revealed.encode() if isinstance(revealed, str) else revealed
        if len(raw) < SHORTEST:
            raise ValueError(f"a canary needs {SHORTEST} characters or more to be recognised")
        self._planted[label] = tuple(_forms(raw))

    def found_in(self, text: str | bytes) -> list[str]:
        raw = text.encode() if isinstance(text, str) else text
        return [label for label, forms in self._planted.items() if any(form in raw for form in forms)]

    def assert_not_leaked(self, place: str, text: str | bytes) -> None:
        """Raise `SecretLeaked` when the text contains a planted secret."""
        found = self.found_in(text)
        if found:
            raise SecretLeaked(f"{place} shows the secret of {', '.join(found)}")

    async def assert_cluster_not_leaking(self, client: Client, *kinds: Resource) -> None:
        """Search Events and all objects of these kinds; Secrets are never searched."""
        for kind in (resources.CORE_EVENTS, *kinds):
            for obj in (await client.list(kind)).items:
                name = (obj.get("metadata") or {}).get("name")
                self.assert_not_leaked(f"{kind.kind} {name}", orjson.dumps(obj))


def _forms(raw: bytes) -> Iterable[bytes]:
    """Yield the value unchanged, hexadecimal, percent-encoded, and in base64 at each of three alignments."""
    yield raw
    yield raw.hex().encode()
    yield quote(raw, safe="").encode()
    for shift in range(3):
        # The characters at both ends also depend on the bytes around the secret.
        whole = slice((shift * 8 + 5) // 6, (shift + len(raw)) * 8 // 6)
        yield base64.b64encode(bytes(shift) + raw)[whole]
        yield base64.urlsafe_b64encode(bytes(shift) + raw)[whole]


KEY_OR_TOKEN = re.compile(rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----|eyJhbGciOi[\w-]{8,}\.[\w-]{8,}\.([\w-]{8,})")
"""A private key, or a token with its signature: the signatures of cluster-info have no content in the middle."""

IN_BASE64 = re.compile(rb"LS0tLS1CRUdJTiB(?:QUklWQVRFIEtFWS|FQyBQUklWQVRFIEtFWS|SU0EgUFJJVkFURSBLRVk)|ZXlKaGJHY2lPaU")
"""The same in base64, at the alignment that the data of an object has."""

MOST_VALUES = 40  # for each test: what is left over is found by its form


class LeakSearch:
    """Knows the secrets of one control plane; finds them, and every key and token, where none may be."""

    def __init__(self) -> None:
        self._canary = Canary()
        self._known: set[bytes] = set()

    def learn(self, secret: Object) -> None:
        """Remember the values of a Secret that could be recognised without their form."""
        key = ObjectKey.of(secret)
        for value in secret_values(secret):
            if len(value) >= SHORTEST and value not in self._known and len(self._known) < MOST_VALUES:
                self._known.add(value)
                self._canary.look_for(f"Secret {key} ({len(self._known)})", value)

    def find(self, place: str, text: bytes) -> list[str]:
        """Return what was found in a text; the secret itself is not part of it."""
        found = [f"the secret of {label} can be read in {place}" for label in self._canary.found_in(text)]
        if KEY_OR_TOKEN.search(text) or IN_BASE64.search(text):
            found.append(f"a private key or a token can be read in {place}")
        return found

    def require_none(self, place: str, text: bytes) -> None:
        """Raise `SecretLeaked` when a text shows a secret."""
        found = self.find(place, text)
        if found:
            raise SecretLeaked("; ".join(found))


def secret_values(secret: Object) -> Iterator[bytes]:
    """Yield what is secret in a Secret: bootstrap tokens, signatures of tokens, a line of each private key."""
    for name, encoded in (secret.get("data") or {}).items():
        try:
            value = base64.b64decode(encoded)
        except (TypeError, binascii.Error):
            continue
        if name == KEY_TOKEN_SECRET:
            yield value
        for match in KEY_OR_TOKEN.finditer(value):
            yield match[1] or value[match.end() :].strip().partition(b"\n")[0]


def log_lines(text: str) -> Iterable[str]:
    """Return the lines of a captured output that a program logged; what a command prints may be a secret."""
    return (line for line in text.splitlines() if line.startswith("{") and '"event": ' in line)


LEAKS = pytest.StashKey[LeakSearch]()
ARGUMENTS = pytest.StashKey[list[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and watch the arguments of programs."""
    config.addinivalue_line("markers", "plants_secrets: puts secrets into objects on purpose, which are not searched")
    arguments: list[bytes] = []
    config.stash[ARGUMENTS] = arguments

    def note(event: str, values: tuple[Any, ...]) -> None:
        if event == "subprocess.Popen":
            arguments.extend(os.fsencode(part) for part in values[1] if isinstance(part, str | bytes | os.PathLike))

    sys.addaudithook(note)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Fail a test whose log, or the arguments of a program that it started, show a secret."""
    report = yield
    if report.when == "teardown" and report.passed:
        leaks = item.stash.get(LEAKS, None) or LeakSearch()
        logged = "\n".join(line for _, text in report.sections for line in log_lines(text))
        arguments = item.config.stash[ARGUMENTS]
        found = leaks.find("the log", logged.encode())
        found += leaks.find("the arguments of a program", b"\n".join(arguments))
        arguments.clear()
        if found:
            report.outcome, report.longrepr = "failed", "; ".join(found)
    return report


@pytest.fixture
def canary(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Iterator[Canary]:
    """Plants secrets; when the test ends, its output and log are searched for them."""
    planted = Canary()
    yield planted
    printed = capfd.readouterr()
    planted.assert_not_leaked("standard output", printed.out)
    planted.assert_not_leaked("standard error", printed.err)
    planted.assert_not_leaked("the log", caplog.text)


@pytest_asyncio.fixture
async def plane(request: pytest.FixtureRequest, plane: Plane) -> AsyncIterator[Plane]:
    """The plugin's control plane, searched when the test ends."""
    yield plane
    await _require_no_leaks(request.node, plane)


@pytest_asyncio.fixture
async def private_plane(request: pytest.FixtureRequest, private_plane: Plane) -> AsyncIterator[Plane]:
    """The same for a control plane of the test's own."""
    yield private_plane
    await _require_no_leaks(request.node, private_plane)


async def _require_no_leaks(item: pytest.Item, plane: Plane) -> None:
    """Search every object of this process, or on another server the readable ones of this test's namespaces."""
    leaks = item.stash[LEAKS] = LeakSearch()
    if item.get_closest_marker("plants_secrets") is not None:
        return
    stored = (
        [(kind, record.body) for kind in plane.store.buckets() for record in plane.store.records(kind)]
        if plane.store
        else []
    )
    for name in plane.namespaces if plane.is_shared else ():
        for kind in (resources.SECRETS, resources.CONFIG_MAPS, resources.CORE_EVENTS):
            listed = await plane.client().list_raw(kind, namespace=name, reduce=bytes)
            stored += [(kind.group_resource, bytes(item)) for item in listed.items]
    texts: dict[str, list[bytes]] = {}
    for collection, body in stored:
        texts.setdefault(collection, []).append(body)
    for body in texts.pop(resources.SECRETS.group_resource, ()):
        leaks.learn(orjson.loads(body))
    texts.pop(resources.MANIFEST_WORKS.group_resource, None)  # users deploy Secrets with them
    found = [row for name, bodies in texts.items() for row in leaks.find(name, b"\n".join(bodies))]
    if found:
        raise SecretLeaked("; ".join(found))
