"""Which registries a pull secret is for."""

from __future__ import annotations

import pytest

from watchword.api.meta import Object
from watchword.pullsecrets.settings import (
    REGISTRY,
    choose_registries,
    service_registries,
    validate_configuration,
)


def a_service(port: int, *addresses: str) -> Object:
    return {
        "metadata": {"namespace": "openshift-image-registry", "name": "image-registry"},
        "spec": {"clusterIP": addresses[0], "clusterIPs": list(addresses), "ports": [{"port": port}]},
    }


def test_service_is_a_registry_under_every_address() -> None:
    found = list(service_registries(a_service(5000, "172.30.1.2", "fd02::2"), cluster_domain="corp.local"))

    assert found == [
        "image-registry.openshift-image-registry.svc:5000",
        "image-registry.openshift-image-registry.svc.corp.local:5000",
        "172.30.1.2:5000",
        "[fd02::2]:5000",
    ]


def test_port_that_clients_leave_out_is_written_both_ways() -> None:
    found = set(service_registries(a_service(443, "172.30.1.2")))

    assert {"172.30.1.2", "172.30.1.2:443"} <= found


def test_headless_service_has_its_names_alone() -> None:
    assert list(service_registries(a_service(5000, "None"))) == [
        "image-registry.openshift-image-registry.svc:5000",
        "image-registry.openshift-image-registry.svc.cluster.local:5000",
    ]


def test_service_without_a_port_is_no_registry() -> None:
    assert list(service_registries({"metadata": {"namespace": "a", "name": "b"}, "spec": {}})) == []


def test_registry_that_is_named_twice_is_written_once() -> None:
    rows = choose_registries([a_service(5000, "10.0.0.1")], ["10.0.0.1:5000", "z.example"], cluster_domain="x")

    assert len(rows) == len(set(rows)) == 4
    assert list(rows) == sorted(rows)


@pytest.mark.parametrize("text", ["https://quay.io", "user@quay.io", "quay.io:", "", "a b", "[zz]:1", "-a.example"])
def test_text_that_is_no_registry_is_refused(text: str) -> None:
    assert REGISTRY.fullmatch(text) is None


@pytest.mark.parametrize("text", ["quay.io", "quay.io:443", "[fd02::2]:5000", "quay.io/team", "10.0.0.1:5000", "r"])
def test_registry_is_accepted(text: str) -> None:
    assert REGISTRY.fullmatch(text) is not None


@pytest.mark.parametrize(
    ("data", "part"),
    [
        pytest.param({"registry": "quay.io"}, "unknown key 'registry'", id="misspelt key"),
        pytest.param({"enabled": "yes"}, "write true or false", id="not a boolean"),
        pytest.param({"registries": "https://quay.io"}, "not a registry", id="with a scheme"),
        pytest.param({"token-lifetime-seconds": "60"}, "from 600", id="shorter than Kubernetes issues"),
        pytest.param({"token-lifetime-seconds": "9" * 30}, "from 600", id="far too long"),
        pytest.param({"token-lifetime-seconds": "000000600" + "9" * 20}, "from 600", id="too long behind zeros"),
        pytest.param({}, "", id="nothing"),
        pytest.param({"registries": "a.example, b.example\nc.example", "audience": "registry"}, "", id="a list"),
    ],
)
def test_validate_configuration(data: dict[str, str], part: str) -> None:
    found = validate_configuration(data)

    assert part in found
    assert bool(found) == bool(part)
