"""Upgrade and downgrade in the middle of rotations: two revisions take turns on one data directory.

Each turn asks for a rotation of every credential, is killed at once, and the other revision continues. No cluster may
lose its identity, and after each turn the hub has to honour every cluster's credential.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import orjson

from bench.reliability.figure import Figure, markdown_table
from watchword.api.meta import ObjectKey, uid_of
from watchword.api.names import AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET, Annotation
from watchword.api.resources import MANAGED_CLUSTERS, SECRETS
from watchword.api.sensitive import Sensitive
from watchword.api.time import rfc3339
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import SecretData
from watchword.kube.access_reviews import who_am_i
from watchword.kube.client import Client
from watchword.kube.connect import connect, credentials_of, endpoint_of, make_client
from watchword.kube.kubeconfig import ClusterEntry, UserEntry
from watchword.kube.kubeconfig_files import read_kubeconfig
from watchword.runtime.event_loop import run

ROOT = Path(__file__).parents[2]
CLUSTER = "cluster1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--old", default="HEAD~20", help="the earlier revision (default: %(default)s)")
    parser.add_argument("--new", default="HEAD", help="the later revision (default: %(default)s)")
    parser.add_argument("--turns", type=int, default=4, help="starts, of the earlier revision first, in alternation")


def measure(options: argparse.Namespace) -> Figure:
    """Return how many exchanges kept every identity and every credential."""
    with tempfile.TemporaryDirectory(prefix="watchword-upgrade-") as folder:
        sources = [_extract(revision, Path(folder) / name) for name, revision in _named(options)]
        data, identities, rows = Path(folder) / "fleet", [], []
        for turn in range(options.turns):
            with _up(sources[turn % 2], data) as kubeconfig:
                identities.append(run(read_identity(kubeconfig)))
                run(_request_rotation(kubeconfig))
            rows.append((turn + 1, ("earlier", "later")[turn % 2], identities[-1] == identities[0]))
    kept = sum(same for *_, same in rows[1:])
    line = f"{kept} of {options.turns - 1} exchanges of revisions during a rotation kept every identity and credential"
    return Figure(line, kept == options.turns - 1, markdown_table(("turn", "revision", "same identity"), rows))


def _named(options: argparse.Namespace) -> list[tuple[str, str]]:
    return [("old", options.old), ("new", options.new)]


def _extract(revision: str, folder: Path) -> Path:
    """Write the sources of a revision to a folder, from git alone."""
    folder.mkdir()
    archive = subprocess.run(["git", "-C", ROOT, "archive", revision, "src"], check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
    return folder / "src"


@contextmanager
def _up(sources: Path, data: Path) -> Iterator[Path]:
    """Run `watchword up` of a revision until all is healthy; in the end it is killed."""
    command = [sys.executable, "-m", "watchword", "up", "--json", "--clusters=1", f"--data-dir={data}"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=_environment(sources), start_new_session=True
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if orjson.loads(line)["event"] == "ready":
                    break
            else:
                raise AssertionError(f"the revision of {sources} ended before its fleet was healthy")
            yield data / "kubeconfig"
        finally:
            process.kill()


def _environment(sources: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(sources)}


async def _request_rotation(kubeconfig: Path) -> None:
    """Ask for another credential of the cluster, and do not wait for it."""
    hub = connect(kubeconfig, "hub")
    patch = {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: rfc3339(datetime.now(UTC))}}}
    await hub.patch(MANAGED_CLUSTERS, ObjectKey.cluster(CLUSTER), patch)
    await hub.close()


async def read_identity(kubeconfig: Path) -> str:
    """Return the cluster's UID at the hub and its user name, as the hub recognises its credential."""
    hub, cluster = connect(kubeconfig, "hub"), connect(kubeconfig, CLUSTER)
    secret = await cluster.get(SECRETS, ObjectKey(AGENT_NAMESPACE, HUB_KUBECONFIG_SECRET))
    own = _client_of(decode_data(secret), read_kubeconfig(kubeconfig).choose("hub").cluster)
    try:
        uid = uid_of(await hub.get(MANAGED_CLUSTERS, ObjectKey.cluster(CLUSTER)))
        return f"{uid} {(await who_am_i(own)).username}"
    finally:
        for client in (hub, cluster, own):
            await client.close()


def _client_of(data: SecretData, hub: ClusterEntry) -> Client:
    """Return a client of the hub that shows the cluster's own certificate."""
    user = UserEntry(certificate_data=data["tls.crt"], key_data=Sensitive(data["tls.key"]))
    return make_client(endpoint_of(hub), credentials_of(user, hub))
