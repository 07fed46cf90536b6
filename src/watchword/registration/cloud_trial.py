"""A cloud that `watchword up` emulates, so that a driver can be tried without an account in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from watchword.api.meta import Object, ObjectKey
from watchword.registration.options import Settings


class CloudTrial(Struct, frozen=True, kw_only=True):
    """How a driver is tried with an emulator, which is a program of its own."""

    name: str  # of the cloud, for messages and for the folder of the emulator
    module: str  # `python -m MODULE FOLDER` serves until its standard input ends
    libraries: tuple[str, ...]  # what it imports
    extra: str  # or several, of this package: installs them
    audience: str  # of the ServiceAccount tokens that the cloud accepts
    hub_account: ObjectKey  # the ServiceAccount with which the hub's controllers prove who they are
    hub_settings: Settings  # flags of `init`
    cluster_settings: Callable[[int], Settings]  # flags of `join`, by the number of the cluster
    accounts: Callable[[Path, Sequence[Path]], Object]  # `accounts.json`, from the kubeconfigs of hub and clusters
    environment: Callable[[str, Path, Settings], Mapping[str, str]]  # for pods: endpoint, token file, flags of `join`
