"""The kubeconfig in a Secret is that of Open Cluster Management's agent, so that either agent keeps the other's."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchword.credentials.credential_secret import HubKubeconfigRenderer, hub_kubeconfig
from watchword.credentials.driver import KUBECONFIG
from watchword.kube.errors import ConfigError
from watchword.kube.exec_plugin import ExecPlugin
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import write_kubeconfig
from watchword.registration.agent.hub_endpoint import HubEndpoint
from watchword.registration.driver import BootstrapCredential, KubeconfigConnector

HUB = ClusterEntry("https://hub.test:6443", ca_data=b"authority", proxy_url="http://proxy:3128")

WRITTEN = """\
apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: YXV0aG9yaXR5
    proxy-url: http://proxy:3128
    server: https://hub.test:6443
  name: hub
contexts:
- context:
    cluster: hub
    namespace: configuration
    user: default-auth
  name: default-context
current-context: default-context
kind: Config
users:
- name: default-auth
  user:
"""


@pytest.mark.parametrize(
    ("user", "lines"),
    [
        pytest.param(
            UserEntry(certificate_file=Path("tls.crt"), key_file=Path("tls.key")),
            "    client-certificate: tls.crt\n    client-key: tls.key\n",
            id="csr",
        ),
        pytest.param(UserEntry(token_file=Path("token")), "    tokenFile: token\n", id="token"),
    ],
)
def test_a_kubeconfig_has_the_bytes_that_client_go_writes(user: UserEntry, lines: str) -> None:
    assert hub_kubeconfig(HUB, user).decode() == WRITTEN + lines


def bootstrap_file(folder: Path, name: str) -> Path:
    path = folder / "bootstrap.kubeconfig"
    write_kubeconfig(path, Kubeconfig({name: HUB}, {"join": UserEntry()}, {"c": ContextEntry(name, "join")}, "c"))
    return path


def test_the_hub_has_the_name_that_the_bootstrap_kubeconfig_gives_it(tmp_path: Path) -> None:
    connector = KubeconfigConnector(bootstrap_file(tmp_path, "hub-of-berlin"))
    endpoint = HubEndpoint(connector)
    endpoint.restore({KUBECONFIG: hub_kubeconfig(HUB, UserEntry())})

    assert isinstance(connector.bootstrap_credential(), BootstrapCredential)
    assert b"name: hub-of-berlin" in HubKubeconfigRenderer(endpoint).for_user(UserEntry())


def test_without_a_bootstrap_kubeconfig_the_hub_keeps_its_name() -> None:
    endpoint = HubEndpoint(KubeconfigConnector(None))
    endpoint.restore({KUBECONFIG: hub_kubeconfig(HUB, UserEntry(), name="hub-of-berlin")})

    assert b"name: hub-of-berlin" in HubKubeconfigRenderer(endpoint).for_user(UserEntry())


@pytest.mark.parametrize(
    "user",
    [
        pytest.param(UserEntry(plugin=ExecPlugin("/bin/sh", ("-c", "true"))), id="a plugin"),
        pytest.param(UserEntry(certificate_file=Path("/root/.kube/client.crt")), id="a file"),
    ],
)
def test_nothing_that_a_stored_kubeconfig_names_is_run_or_read(user: UserEntry) -> None:
    data = {KUBECONFIG: hub_kubeconfig(HUB, user)}

    with pytest.raises(ConfigError, match="names a plugin or files"):
        KubeconfigConnector(None).own(data)
