"""The authority of the signer: what is created, rotated and trusted, and when."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest
from tests.helpers.events import is_told
from tests.helpers.fleet import FleetHarness
from tests.registration.grpc.grpc_hub import serves

from watchword.api.meta import Object
from watchword.api.names import HUB_NAMESPACE
from watchword.api.resources import CONFIG_MAPS, NAMESPACES, SECRETS
from watchword.credentials.credential_secret import encode_data
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.certificates import Certificate, parse_certificate, split_bundle
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import AlternativeNames
from watchword.processes.hub import HubOptions
from watchword.registration.grpc.driver import BUNDLE_KEY, CA_BUNDLE, HOSTS, SERVING_KEY, SERVING_SECRET, SIGNER_SECRET
from watchword.registration.grpc.hub import (
    PROPAGATION,
    RECHECK,
    SignerAuthorities,
    decide_authorities,
    decide_bundle,
    is_serving_certificate_good,
    read_bundle,
)
from watchword.testing.builders import a_namespace, a_secret
from watchword.testing.eventually import eventually

NOW = datetime(2026, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=365)
NAMES = AlternativeNames(("grpc.example.com",))
SCRIBBLE = {"data": {BUNDLE_KEY: "scribble"}}


def an_authority(*, now: datetime = NOW, lifetime: timedelta = YEAR) -> Authority:
    return Authority.make("signer", now=now, lifetime=lifetime)


def no_successor() -> Authority:
    raise AssertionError("no successor is needed")


def test_authority_with_a_long_life_stays() -> None:
    held = SignerAuthorities(an_authority())

    assert decide_authorities(held, no_successor, now=NOW + 0.7 * YEAR) == held


def test_successor_is_made_when_a_fifth_of_the_life_is_left() -> None:
    held, successor = SignerAuthorities(an_authority()), an_authority(now=NOW + 0.85 * YEAR)

    wanted = decide_authorities(held, lambda: successor, now=NOW + 0.85 * YEAR)

    assert wanted == SignerAuthorities(held.current, successor)


@pytest.mark.parametrize(
    ("waited", "signs"),
    [
        pytest.param(PROPAGATION / 2, False, id="not everywhere trusted yet"),
        pytest.param(PROPAGATION, True, id="trusted for long enough"),
    ],
)
def test_successor_signs_once_it_is_trusted(waited: timedelta, *, signs: bool) -> None:
    made = NOW + 0.85 * YEAR
    held = SignerAuthorities(an_authority(), an_authority(now=made))

    wanted = decide_authorities(held, no_successor, now=made - timedelta(minutes=5) + waited)

    assert (wanted.current == held.following) is signs


def test_earlier_authorities_are_trusted_until_they_expire() -> None:
    current, earlier, expired = an_authority(), an_authority(), an_authority(lifetime=timedelta(days=1))
    trusted = [earlier.certificate, expired.certificate, current.certificate]

    bundle = decide_bundle(SignerAuthorities(current), trusted, now=NOW + timedelta(days=2))

    assert bundle == (current.certificate, earlier.certificate)


def test_certificate_that_is_no_authority_is_not_trusted() -> None:
    current = an_authority()
    leaf = current.issue_serving(PrivateKey.generate().public, NAMES, now=NOW, lifetime=YEAR)

    assert decide_bundle(SignerAuthorities(current), [leaf], now=NOW) == (current.certificate,)


@pytest.mark.parametrize(
    ("names", "days", "foreign", "good"),
    [
        pytest.param(NAMES, 1, False, True, id="as it should be"),
        pytest.param(AlternativeNames(("other.example.com",)), 1, False, False, id="for another host"),
        pytest.param(NAMES, 25, False, False, id="due"),
        pytest.param(NAMES, 1, True, False, id="of an authority that is not trusted"),
    ],
)
def test_serving_certificate_is_replaced_when_it_does_not_serve(
    names: AlternativeNames, days: int, *, foreign: bool, good: bool
) -> None:
    authority, trusted = an_authority(), an_authority()
    signer = authority if foreign else trusted
    key = PrivateKey.generate()
    held = signer.issue_serving(key.public, names, now=NOW, lifetime=timedelta(days=30))

    data = {"tls.crt": held.pem, "tls.key": key.pem.reveal()}
    now = NOW + timedelta(days=days)
    assert is_serving_certificate_good(data, NAMES, [trusted.certificate], now=now) is good


@pytest.mark.parametrize(
    "stored",
    [
        pytest.param(b"scribble", id="damaged"),
        pytest.param(PrivateKey.generate().pem.reveal(), id="of another certificate"),
        pytest.param(b"", id="missing"),
    ],
)
def test_serving_certificate_without_its_key_is_replaced(stored: bytes) -> None:
    authority = an_authority()
    held = authority.issue_serving(PrivateKey.generate().public, NAMES, now=NOW, lifetime=timedelta(days=30))

    data = {"tls.crt": held.pem, "tls.key": stored}
    assert not is_serving_certificate_good(data, NAMES, [authority.certificate], now=NOW)


def start_hub(fleet: FleetHarness) -> None:
    options = HubOptions(
        drivers=("csr", "grpc"),
        settings={HOSTS.flag: "grpc.example.com,192.0.2.7"},
        elect=False,
        install=False,
    )
    fleet.run_hub(options)


def content(obj: Object, name: str) -> bytes:
    return base64.b64decode(obj["data"][name])


async def test_hub_creates_authority_bundle_and_serving_certificate(fleet: FleetHarness) -> None:
    await fleet.client.apply(NAMESPACES, a_namespace(HUB_NAMESPACE), force=True)
    start_hub(fleet)

    serving = await eventually(fleet.client, SECRETS, SERVING_SECRET, serves("grpc.example.com"))
    signer = await fleet.client.get(SECRETS, SIGNER_SECRET)
    bundle = await fleet.client.get(CONFIG_MAPS, CA_BUNDLE)

    leaf = parse_certificate(content(serving, "tls.crt"))
    assert leaf.names.ips == ("192.0.2.7",)
    assert trusted_in(bundle) == (parse_certificate(content(signer, "tls.crt")),)
    await is_told(fleet.client, SIGNER_SECRET.name, "SigningAuthorityCreated")
    await is_told(fleet.client, SERVING_SECRET.name, "ServingCertificateIssued")


@pytest.mark.planes("embedded")  # months of virtual time
async def test_authority_that_is_replaced_in_time_is_told(fleet: FleetHarness) -> None:
    await fleet.client.apply(NAMESPACES, a_namespace(HUB_NAMESPACE), force=True)
    short = an_authority(now=fleet.plane.clock.now(), lifetime=timedelta(days=1))
    data = {"tls.crt": short.certificate.pem, "tls.key": short.key.pem.reveal()}
    secret = a_secret(SIGNER_SECRET.name, namespace=HUB_NAMESPACE, data=data)
    await fleet.client.create(SECRETS, {**secret, "type": "kubernetes.io/tls"})
    start_hub(fleet)

    day = timedelta(days=1).total_seconds()
    await is_told(fleet.client, SIGNER_SECRET.name, "SigningAuthorityRotated", within=day)


@pytest.mark.planes("embedded")  # a day of virtual time
async def test_expiry_of_authority_and_serving_certificate_is_measured(fleet: FleetHarness) -> None:
    await fleet.client.apply(NAMESPACES, a_namespace(HUB_NAMESPACE), force=True)
    start_hub(fleet)

    await asyncio.sleep(timedelta(days=1).total_seconds())

    now, published = fleet.plane.clock.now(), await fleet.client.get(CONFIG_MAPS, CA_BUNDLE)
    held = {
        "server-authority": trusted_in(published)[0],
        "server-certificate": parse_certificate(published["data"][SERVING_KEY].encode()),
    }
    for kind, certificate in held.items():
        labels = {"kind": kind, "cluster": ""}
        measured = fleet.metrics[-1].registry.get_sample_value("watchword_credential_expires_seconds", labels)
        assert measured == (certificate.not_after - now).total_seconds()


async def test_authority_of_the_administrator_is_adopted_while_the_hub_runs(fleet: FleetHarness) -> None:
    await fleet.client.apply(NAMESPACES, a_namespace(HUB_NAMESPACE), force=True)
    start_hub(fleet)
    await eventually(fleet.client, SECRETS, SERVING_SECRET)
    first = trusted_in(await fleet.client.get(CONFIG_MAPS, CA_BUNDLE))
    own = an_authority(now=fleet.plane.clock.now())

    signer = await fleet.client.get(SECRETS, SIGNER_SECRET)
    data = a_secret("x", namespace="x", data={"tls.crt": own.certificate.pem, "tls.key": own.key.pem.reveal()})["data"]
    await fleet.client.update(SECRETS, {**signer, "data": data})

    bundle = await eventually(
        fleet.client, CONFIG_MAPS, CA_BUNDLE, lambda obj: obj is not None and own.certificate in trusted_in(obj)
    )
    assert trusted_in(bundle) == (own.certificate, *first)


async def has_earlier_authority(fleet: FleetHarness) -> Certificate:
    """Start a hub, and replace the authority that it makes; return its certificate."""
    await fleet.client.apply(NAMESPACES, a_namespace(HUB_NAMESPACE), force=True)
    start_hub(fleet)
    await eventually(fleet.client, SECRETS, SERVING_SECRET)
    earlier, own = (
        trusted_in(await fleet.client.get(CONFIG_MAPS, CA_BUNDLE))[0],
        an_authority(now=fleet.plane.clock.now()),
    )
    data = {"tls.crt": own.certificate.pem, "tls.key": own.key.pem.reveal()}
    await fleet.client.patch(SECRETS, SIGNER_SECRET, {"data": encode_data(data)})
    await eventually(fleet.client, CONFIG_MAPS, CA_BUNDLE, trusts(own.certificate, earlier))
    return earlier


@pytest.mark.planes("embedded")  # the bundle is looked at every ten minutes
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda client: client.delete(CONFIG_MAPS, CA_BUNDLE), id="deleted"),
        pytest.param(lambda client: client.patch(CONFIG_MAPS, CA_BUNDLE, SCRIBBLE), id="overwritten"),
    ],
)
async def test_earlier_authorities_are_published_again_when_the_bundle_is_damaged(
    fleet: FleetHarness, damage: Callable[[Client], Awaitable[object]]
) -> None:
    earlier = await has_earlier_authority(fleet)

    await damage(fleet.client)

    await eventually(fleet.client, CONFIG_MAPS, CA_BUNDLE, trusts(earlier), within=2 * RECHECK.total_seconds())


async def test_authority_that_is_removed_from_the_secret_is_trusted_no_longer(fleet: FleetHarness) -> None:
    earlier = await has_earlier_authority(fleet)
    signer = await fleet.client.get(SECRETS, SIGNER_SECRET)
    current = content(signer, "tls.crt")

    await fleet.client.patch(SECRETS, SIGNER_SECRET, {"data": encode_data({BUNDLE_KEY: current})})

    await eventually(fleet.client, CONFIG_MAPS, CA_BUNDLE, lambda obj: not trusts(earlier)(obj))
    assert trusted_in(await fleet.client.get(CONFIG_MAPS, CA_BUNDLE)) == (parse_certificate(current),)


def trusts(*authorities: Certificate) -> Callable[[Object | None], bool]:
    def test(bundle: Object | None) -> bool:
        return bundle is not None and set(authorities) <= set(read_bundle(bundle["data"][BUNDLE_KEY].encode()))

    return test


def trusted_in(bundle: Object) -> tuple[Certificate, ...]:
    return split_bundle(bundle["data"][BUNDLE_KEY].encode())
