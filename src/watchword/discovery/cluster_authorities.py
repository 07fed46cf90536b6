"""Which authorities are this cluster's own: what cluster-info is compared with before it is signed."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from watchword.api.bootstrap import CLUSTER_INFO, KUBE_PUBLIC
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS
from watchword.pki.certificates import split_bundle
from watchword.pki.errors import CertificateRefused
from watchword.pki.pins import Pin
from watchword.runtime.reconcile import Reader

ROOT_CA = ObjectKey(KUBE_PUBLIC, "kube-root-ca.crt")


class ClusterAuthorities(Struct, frozen=True):
    """The authorities from the command line, and those that the cluster publishes to every namespace.

    A user who may write kube-root-ca.crt decides what every pod trusts; it is trusted here as well.
    """

    configured: bytes = b""  # PEM; the bundle by which the controller itself trusts its API server

    def pins(self, reader: Reader) -> frozenset[Pin]:
        """Return the pins of all of them, empty when none is known."""
        published = reader.get(CONFIG_MAPS, ROOT_CA) or {}
        text = str((published.get("data") or {}).get("ca.crt") or "")
        return read_pins(self.configured) | read_pins(text.encode())


def read_pins(bundle: bytes) -> frozenset[Pin]:
    """Return the pins of a PEM bundle, none when it cannot be read."""
    try:
        return frozenset(certificate.pin for certificate in split_bundle(bundle)) if bundle else frozenset()
    except CertificateRefused:
        return frozenset()


def cluster_info_for_root_ca(config_map: Object) -> Iterable[ObjectKey]:
    """Map the published CA to the ConfigMap that is compared with it."""
    return (CLUSTER_INFO,) if ObjectKey.of(config_map) == ROOT_CA else ()
