"""Reads credentials as their holders have them, as a thief or an auditor would."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from functools import lru_cache

from msgspec import Struct
from tests.simulation.cluster import SimulatedCluster

from watchword.addons.token.agent import TOKEN
from watchword.api.meta import ObjectKey
from watchword.api.names import ADDON_NAMESPACE, addon_group, cluster_group
from watchword.api.resources import SECRETS
from watchword.credentials.certificates.agent import CERTIFICATE, KEY
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import KUBECONFIG, SecretData
from watchword.credentials.lifecycle import read_bound_token
from watchword.kube.errors import ConfigError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.pki.certificates import Certificate, parse_certificate
from watchword.pki.errors import PkiError
from watchword.pki.keys import PrivateKey
from watchword.registration.aws_irsa.agent import read_held_entry
from watchword.testing.virtual_time import EPOCH

NEVER = datetime(9999, 1, 1, tzinfo=UTC)  # an entry that obtains tokens does not end
ADDON = "reporter"
ADDON_SECRET = ObjectKey(ADDON_NAMESPACE, f"{ADDON}-hub-kubeconfig")


class HeldCredential(Struct, frozen=True):
    """One credential as its holder has it."""

    what: str
    cluster: str  # that holds it, or for which it is held
    owner: str  # in whose name it speaks; the same
    issued_at: datetime
    expires_at: datetime


def cluster_credential(member: SimulatedCluster) -> HeldCredential | None:
    """Return the cluster's own credential, None when it holds none that works."""
    if (pair := member.eks_pair) is not None:
        entry = read_held_entry(member.held())
        owner = member.name if entry is not None and entry.subject == pair.hub_role else ""
        return None if entry is None else HeldCredential("cluster", member.name, owner, EPOCH, NEVER)
    certificate = usable_certificate(member.held())
    if certificate is None or (member.grpc is not None and member.grpc.is_lost(certificate)):
        return None
    owner = _owner(certificate.organisations)
    return HeldCredential("cluster", member.name, owner, certificate.not_before, certificate.not_after)


def addon_credential(
    member: SimulatedCluster, addon: str = ADDON, what: str = "add-on", namespace: str = ADDON_NAMESPACE
) -> HeldCredential | None:
    """Return the credential of an add-on on a cluster, of whatever driver."""
    data = decode_data(member.stored.get(SECRETS, ObjectKey(namespace, f"{addon}-hub-kubeconfig")))
    facts = read_bound_token(data.get(TOKEN, b"").decode(errors="replace"))
    if facts is not None:
        return HeldCredential(what, member.name, facts.subject.split(":")[2], facts.issued_at, facts.expires_at)
    certificate = usable_certificate(data)
    if certificate is None:
        return None
    owner = _addons_owner(certificate.organisations, addon)
    return HeldCredential(what, member.name, owner, certificate.not_before, certificate.not_after)


def secrets_in(data: SecretData) -> Iterator[tuple[str, bytes]]:
    """Yield the secret values of a credential's Secret, by what they are."""
    for what, value in (("key", _core(data.get(KEY))), ("token", data.get(TOKEN, b""))):
        if value:
            yield what, value


def _core(pem: bytes | None) -> bytes:
    """Return the first line of what a key's armour protects: recognised in whatever it is wrapped."""
    return b"".join((pem or b"").splitlines()[1:2])


def read_endpoint(data: SecretData) -> ClusterEntry:
    """Return the hub in the kubeconfig of a Secret, one without an address where that cannot be read."""
    return _endpoint(data.get(KUBECONFIG, b""))


@lru_cache(maxsize=1024)  # read for each request of a pod, and the same for days
def _endpoint(kubeconfig: bytes) -> ClusterEntry:
    try:
        return parse_kubeconfig(kubeconfig, environment={}).choose().cluster
    except ConfigError:
        return ClusterEntry("")


def usable_certificate(data: SecretData) -> Certificate | None:
    """Return the certificate of a Secret, None where it is not one with its key."""
    return _pair(data[CERTIFICATE], data[KEY]) if CERTIFICATE in data and KEY in data else None


@lru_cache(maxsize=1024)  # looked at every twelve hours, and the same for days
def _pair(chain: bytes, pem: bytes) -> Certificate | None:
    try:
        certificate, key = parse_certificate(chain), PrivateKey.from_pem(pem)
    except PkiError:
        return None
    return certificate if certificate.key == key.public else None


def _owner(organisations: Iterable[str]) -> str:
    prefix = cluster_group("")
    named = [group.removeprefix(prefix) for group in organisations if group.startswith(prefix)]
    return next((name for name in named if name != "managed-clusters"), "")


def _addons_owner(organisations: Iterable[str], addon: str) -> str:
    for group in organisations:
        cluster, _, rest = group.removeprefix("system:open-cluster-management:cluster:").partition(":")
        if rest and group == addon_group(cluster, addon):
            return cluster
    return ""
