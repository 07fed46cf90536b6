"""Makes a client from a kubeconfig or from a pod's service account."""

import base64
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from watchword.api.meta import Object
from watchword.api.sensitive import Sensitive
from watchword.kube.client import Client
from watchword.kube.credentials import (
    Credential,
    CredentialSource,
    FixedCredential,
    StoredCredential,
    basic,
    impersonation,
)
from watchword.kube.endpoint import Endpoint, FileOrBytes, read
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import ExecCredential
from watchword.kube.files import WatchedFile
from watchword.kube.https_transport import HttpsTransport
from watchword.kube.kubeconfig import ClusterEntry, ResolvedContext, UserEntry
from watchword.kube.kubeconfig_files import find_kubeconfigs, load_kubeconfig

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FOLDER_VARIABLE = "WATCHWORD_SERVICE_ACCOUNT"
"""The variable that names another folder, for pods that run as plain processes."""


def service_account_folder(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get(FOLDER_VARIABLE) or SERVICE_ACCOUNT_FOLDER)


def is_in_cluster(environment: Mapping[str, str] = os.environ) -> bool:
    is_pod = bool(environment.get("KUBERNETES_SERVICE_HOST"))
    return is_pod and (service_account_folder(environment) / "token").is_file()


def incluster_endpoint(environment: Mapping[str, str] = os.environ) -> Endpoint:
    host, port = environment.get("KUBERNETES_SERVICE_HOST"), environment.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise ConfigError("this is not a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set")
    address = f"[{host}]" if ":" in host else host
    ca = WatchedFile(service_account_folder(environment) / "ca.crt", "certificate authority")
    return Endpoint(f"https://{address}:{port}", ca=ca)


def incluster_credential(environment: Mapping[str, str] = os.environ) -> StoredCredential:
    """Return the pod's service account token; it is read again when the kubelet renews it."""
    return StoredCredential(token=WatchedFile(service_account_folder(environment) / "token", "token file"))


_log = logging.getLogger(__name__)
_EXEC_EXTENSION = "client.authentication.k8s.io/exec"


def connect(
    kubeconfig_path: Path | None = None,
    context: str = "",
    *,
    environment: Mapping[str, str] = os.environ,
    **options: Any,
) -> Client:
    """Return a client by kubeconfig; in a pod without one, by its service account.

    Raises `ConfigError` when the configuration cannot be used; no request is sent yet.
    """
    wants_file = kubeconfig_path is not None or context or any(p.exists() for p in find_kubeconfigs(environment))
    if not wants_file and is_in_cluster(environment):
        return make_client(incluster_endpoint(environment), incluster_credential(environment), **options)
    return client_for_context(load_kubeconfig(kubeconfig_path, environment).choose(context), **options)


def client_for_context(choice: ResolvedContext, **options: Any) -> Client:
    return make_client(endpoint_of(choice.cluster), credentials_of(choice.user, choice.cluster), **options)


def make_client(endpoint: Endpoint, credentials: CredentialSource, **options: Any) -> Client:
    return Client(HttpsTransport(endpoint, credentials), **options)


def endpoint_of(cluster: ClusterEntry) -> Endpoint:
    """Return the endpoint of a cluster entry; warns when the server's certificate is not to be verified."""
    if not cluster.server:
        raise ConfigError("the cluster has no server address: set server in the kubeconfig")
    if cluster.insecure:
        _log.warning("the server's certificate is not verified, as the kubeconfig demands: server=%s", cluster.server)
    ca = _authorities(cluster)
    read(ca)  # a missing file is reported now, not at the first request
    return Endpoint(cluster.server, ca, cluster.tls_server_name, cluster.insecure, cluster.proxy_url)


def credentials_of(user: UserEntry, cluster: ClusterEntry) -> CredentialSource:
    """Return the source of a user entry's credential; a token in a file beats one inline, as in kubectl."""
    other = user.impersonation
    headers = impersonation(other.user, other.uid, other.groups, other.extra)
    chain = _content(user.certificate_data, user.certificate_file, "client certificate")
    key = _content(user.key_data.reveal() if user.key_data else b"", user.key_file, "client key")
    if bool(chain) != bool(key):
        raise ConfigError("the user has a client certificate without a key, or a key without a certificate")
    token: FileOrBytes = WatchedFile(user.token_file, "token file") if user.token_file else b""
    if not token and user.token:
        token = user.token.reveal().encode()
    if token or chain:
        return StoredCredential(token, chain, key, headers)
    if user.plugin is not None:
        return ExecCredential(user.plugin, cluster_info(cluster) if user.plugin.provide_cluster_info else {}, headers)
    authorization = basic(user.username, user.password or Sensitive("")) if user.username else None
    return FixedCredential(Credential(authorization, None, headers))


def cluster_info(cluster: ClusterEntry) -> Object:
    extensions = cluster.rest.get("extensions")
    named = [e for e in extensions if isinstance(e, dict)] if isinstance(extensions, list) else []
    config = next((e.get("extension") for e in named if e.get("name") == _EXEC_EXTENSION), None)
    info: Object = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure,
        "certificate-authority-data": base64.b64encode(read(_authorities(cluster))).decode(),
        "proxy-url": cluster.proxy_url,
        "config": config,
    }
    return {key: value for key, value in info.items() if value}


def _authorities(cluster: ClusterEntry) -> FileOrBytes:
    return _content(cluster.ca_data, cluster.ca_file, "certificate authority")


def _content(data: bytes, path: Path | None, what: str) -> FileOrBytes:
    return data or (WatchedFile(path, what) if path is not None else b"")
