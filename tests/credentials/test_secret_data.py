"""The kubeconfig in a Secret is JSON; that of Open Cluster Management's agent is kept while it is what is wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from watchword.credentials.credential_secret import (
    HubKubeconfigRenderer,
    SecretExtras,
    choose_secret_data,
    hub_kubeconfig,
)
from watchword.credentials.driver import KUBECONFIG, ValidCredential
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
@pytest.mark.parametrize("appended", ["", "# edited\n"], ids=["as client-go writes it", "edited"])
def test_kubeconfig_of_another_agent_stays_as_long_as_it_is_what_is_wanted(
    user: UserEntry, lines: str, appended: str
) -> None:
    written, wanted = (WRITTEN + lines + appended).encode(), hub_kubeconfig(HUB, user)
    held = {KUBECONFIG: written}

    kept = choose_secret_data(
        held,
        ValidCredential(None, None),
        owned=frozenset(),
        extras=SecretExtras({}, with_credential={KUBECONFIG: wanted}),
    )

    assert kept == {KUBECONFIG: wanted if appended else written}


def bootstrap_file(folder: Path, name: str) -> Path:
    path = folder / "bootstrap.kubeconfig"
    write_kubeconfig(path, Kubeconfig({name: HUB}, {"join": UserEntry()}, {"c": ContextEntry(name, "join")}, "c"))
    return path


def test_the_hub_has_the_name_that_the_bootstrap_kubeconfig_gives_it(tmp_path: Path) -> None:
    connector = KubeconfigConnector(bootstrap_file(tmp_path, "hub-of-berlin"))
    endpoint = HubEndpoint(connector)
    endpoint.restore({KUBECONFIG: hub_kubeconfig(HUB, UserEntry())})

    assert isinstance(connector.bootstrap_credential(), BootstrapCredential)
    assert b'"name": "hub-of-berlin"' in HubKubeconfigRenderer(endpoint).for_user(UserEntry())


def test_without_a_bootstrap_kubeconfig_the_hub_keeps_its_name() -> None:
    endpoint = HubEndpoint(KubeconfigConnector(None))
    endpoint.restore({KUBECONFIG: hub_kubeconfig(HUB, UserEntry(), name="hub-of-berlin")})

    assert b'"name": "hub-of-berlin"' in HubKubeconfigRenderer(endpoint).for_user(UserEntry())


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
