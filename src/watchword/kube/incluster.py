"""The identity of a pod: service account files and two environment variables."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from watchword.kube.credentials import StoredCredential
from watchword.kube.endpoint import Endpoint
from watchword.kube.errors import ConfigError
from watchword.kube.files import WatchedFile, read_small_file

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FOLDER_VARIABLE = "WATCHWORD_SERVICE_ACCOUNT"
"""The variable that names another folder, for pods that run as plain processes."""


def service_account_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of the pod's service account."""
    return Path(environment.get(FOLDER_VARIABLE) or SERVICE_ACCOUNT_FOLDER)


def is_in_cluster(environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> bool:
    """Whether this process runs in a pod with a service account."""
    folder = folder or service_account_folder(environment)
    return bool(environment.get("KUBERNETES_SERVICE_HOST")) and (folder / "token").is_file()


def incluster_endpoint(environment: Mapping[str, str] = os.environ, folder: Path | None = None) -> Endpoint:
    """Return the API server of the cluster in which the pod runs."""
    folder = folder or service_account_folder(environment)
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    address = f"[{host}]" if ":" in host else host
    return Endpoint(f"https://{address}:{port}", ca=WatchedFile(folder / "ca.crt", "certificate authority"))


def incluster_credential(
    folder: Path | None = None, *, environment: Mapping[str, str] = os.environ
) -> StoredCredential:
    """Return the pod's service account token; it is read again when the kubelet renews it."""
    folder = folder or service_account_folder(environment)
    return StoredCredential(token=WatchedFile(folder / "token", "token file"))


def incluster_namespace(folder: Path | None = None, *, environment: Mapping[str, str] = os.environ) -> str:
    """Return the namespace that the pod runs in."""
    folder = folder or service_account_folder(environment)
    return read_small_file(folder / "namespace", "namespace file", limit=1024).decode(errors="replace").strip()
