"""A driver is a folder and one line in the catalog: nothing else has to know it."""

from __future__ import annotations

import asyncio
from random import Random

import pytest
import pytest_asyncio
from msgspec.structs import replace
from tests.helpers.fleet import AGENTS_NAMESPACE, FleetHarness
from tests.registration.voucher_driver import (
    ANNOTATION,
    HUB_SETTINGS,
    ISSUER,
    RECORD,
    SETTINGS,
    TRUSTED,
    VOUCHER,
    CloudConnector,
    VoucherDriver,
    catalog_with_vouchers,
)

from watchword.admin.accept import ClusterAcceptor, HubAdmin, deny
from watchword.admin.hub_setup import HubSetup, cluster_manager
from watchword.admin.join import ClusterMembership, klusterlet_manifest, validate_membership
from watchword.api.meta import Object, ObjectKey, annotations_of
from watchword.api.names import ConditionType
from watchword.api.resources import CONFIG_MAPS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.certificates.name_ownership import ApprovalTerms
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.errors import AmbiguousDriver, UnknownDriver
from watchword.discovery.cluster_info import ClusterInfo
from watchword.health.cluster_side import Membership, decide_credential_findings
from watchword.health.hub_reader import read_hub_facts
from watchword.health.inventory import build_inventory, count_unknown_expiry, forecast_expiry
from watchword.health.inventory_rows import CredentialRow
from watchword.health.row_findings import inventory_findings
from watchword.health.states import InventoryHealth
from watchword.operator.cluster_manager import hub_flags
from watchword.operator.klusterlet import agent_flags
from watchword.processes.agent import validate_agent_options
from watchword.processes.hub import HubOptions, run_hub
from watchword.registration.agent.options import AgentOptions
from watchword.registration.catalog import CATALOG, Catalog, make_connector
from watchword.registration.driver import ConnectorContext
from watchword.testing.builders import a_cluster
from watchword.testing.eventually import eventually, is_gone


class VoucherFleet:
    """A hub that knows the new driver, and clusters that join by it."""

    def __init__(self, members: FleetHarness) -> None:
        self.members, self.catalog = members, catalog_with_vouchers(members.plane)
        options = HubOptions(
            drivers=("csr", VOUCHER), catalog=self.catalog, settings=HUB_SETTINGS, elect=False, install=False
        )
        hub = run_hub(members.plane.fresh_client(), options, clock=members.plane.clock, random=Random(1))
        members.tasks.append(asyncio.create_task(hub))

    @property
    def admin(self) -> HubAdmin:
        return HubAdmin(self.members.client, self.members.plane.clock)

    async def join(self) -> str:
        name = self.members.name()
        connector = make_connector(
            self.catalog.find(VOUCHER), ConnectorContext(cluster=name, bootstrap=None, settings=SETTINGS)
        )
        self.members.start_agent(
            name, connector=connector, catalog=self.catalog, registration_auth=VOUCHER, settings=SETTINGS
        )
        await eventually(self.members.client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
        await ClusterAcceptor(self.admin, ApprovalTerms(), catalog=self.catalog).accept(name)
        await self.members.joined(name)
        return name

    async def row_of(self, name: str) -> CredentialRow:
        now = self.members.plane.clock.now()
        inventory = build_inventory(await read_hub_facts(self.members.client), now=now, catalog=self.catalog)
        return next(row for row in inventory.credentials if row.cluster == name)


@pytest_asyncio.fixture
async def vouchers(fleet: FleetHarness) -> VoucherFleet:
    return VoucherFleet(fleet)


async def test_cluster_joins_without_certificate_request(vouchers: VoucherFleet) -> None:
    name = await vouchers.join()

    client = vouchers.members.client
    cluster = await client.get(MANAGED_CLUSTERS, ObjectKey.cluster(name))
    assert annotations_of(cluster)[ANNOTATION] == "acme"
    assert await vouchers.admin.csrs_of(name) == []
    assert (await eventually(client, CONFIG_MAPS, ObjectKey(name, RECORD)))["data"] == {"issuer": "acme"}


async def test_credential_without_expiry_is_good_in_inventory_and_doctor(vouchers: VoucherFleet) -> None:
    name = await vouchers.join()
    await vouchers.members.condition(name, "VoucherHonoured", "True", "VoucherWritten")

    row = await vouchers.row_of(name)

    assert (row.kind, row.health, row.note) == ("cluster voucher", InventoryHealth.GOOD, "renewed by its issuer")
    assert (row.validity.expires, row.next_rotation) == (None, None)
    secret = await vouchers.members.client.get(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{name}"))
    (finding,) = decide_credential_findings(
        Membership(name, AGENTS_NAMESPACE, "hub.test:6443", decode_data(secret)),
        vouchers.members.plane.clock.now(),
        vouchers.catalog,
    )
    assert finding.sentence == f"acme vouches for {name} does not expire"


async def test_credential_without_expiry_is_neither_forecast_nor_reported(vouchers: VoucherFleet) -> None:
    name = await vouchers.join()
    await vouchers.members.condition(name, "VoucherHonoured", "True", "VoucherWritten")
    await vouchers.members.condition(name, ConditionType.AVAILABLE, "True")
    now = vouchers.members.plane.clock.now()

    inventory = build_inventory(await read_hub_facts(vouchers.members.client), now=now, catalog=vouchers.catalog)

    own = replace(inventory, credentials=[row for row in inventory.credentials if row.cluster == name])
    assert forecast_expiry(own, now=now, within=now.max.replace(tzinfo=now.tzinfo) - now) == []
    assert count_unknown_expiry(own) == 0
    assert not [finding for _, finding in inventory_findings(own) if finding.cluster == name]


async def test_denied_cluster_is_revoked_by_its_driver(vouchers: VoucherFleet) -> None:
    name = await vouchers.join()
    client = vouchers.members.client
    await eventually(client, CONFIG_MAPS, ObjectKey(name, RECORD))

    await deny(vouchers.admin, name)

    await eventually(client, CONFIG_MAPS, ObjectKey(name, RECORD), is_gone)
    await vouchers.members.condition(name, ConditionType.HUB_ACCEPTED, "False")


async def test_cluster_that_hides_its_driver_is_revoked_all_the_same(vouchers: VoucherFleet) -> None:
    name = await vouchers.join()
    client = vouchers.members.client
    await eventually(client, CONFIG_MAPS, ObjectKey(name, RECORD))
    hidden = {"metadata": {"annotations": {ANNOTATION: None}}}
    await client.patch(MANAGED_CLUSTERS, ObjectKey.cluster(name), hidden)

    await deny(vouchers.admin, name)

    await eventually(client, CONFIG_MAPS, ObjectKey(name, RECORD), is_gone)


async def test_hub_without_the_driver_does_not_accept_its_clusters(fleet: FleetHarness) -> None:
    options = HubOptions(catalog=catalog_with_vouchers(fleet.plane), elect=False, install=False)
    hub = run_hub(fleet.plane.fresh_client(), options, clock=fleet.plane.clock, random=Random(1))
    fleet.tasks.append(asyncio.create_task(hub))
    name = fleet.name()

    await fleet.client.create(MANAGED_CLUSTERS, a_cluster(name, accepted=True, annotations={ANNOTATION: "acme"}))

    await fleet.condition(name, ConditionType.HUB_ACCEPTED, "False", "RegistrationDriverRefused")


def connect_nothing(_context: ConnectorContext) -> CloudConnector:
    pytest.fail("nothing is connected here")


def a_catalog() -> Catalog:
    return Catalog((*CATALOG.drivers, VoucherDriver(connect_nothing)))


def test_options_travel_from_join_through_the_klusterlet_to_the_agent() -> None:
    membership = ClusterMembership("edge", registration_auth="coupon", settings=SETTINGS, catalog=a_catalog())

    klusterlet = klusterlet_manifest(membership)

    driver = klusterlet["spec"]["registrationConfiguration"]["registrationDriver"]
    assert driver == {"authType": VOUCHER, VOUCHER: {"issuer": "acme"}}
    assert {"--registration-auth=voucher", "--voucher-issuer=acme"} <= set(agent_flags(klusterlet, a_catalog()))


def test_options_travel_from_init_through_the_cluster_manager_to_the_hub() -> None:
    info = ClusterInfo(("https://hub",), ())
    setup = HubSetup(info, drivers=("csr", VOUCHER), settings=HUB_SETTINGS, catalog=a_catalog())

    manager = cluster_manager(setup)

    entries = manager["spec"]["registrationConfiguration"]["registrationDrivers"]
    assert entries == [{"authType": "csr"}, {"authType": VOUCHER, VOUCHER: {"issuers": ["acme", "zenith"]}}]
    flags = hub_flags(manager, a_catalog())
    assert [flag for flag in flags if flag.startswith(TRUSTED.flag)] == [
        f"{TRUSTED.flag}=acme",
        f"{TRUSTED.flag}=zenith",
    ]


def test_repeated_init_keeps_the_entry_of_each_driver() -> None:
    info, catalog = ClusterInfo(("https://hub",), ()), a_catalog()
    first = HubSetup(info, drivers=("csr", VOUCHER), settings=HUB_SETTINGS, catalog=catalog)

    again = HubSetup(info, image="registry.example/hub:2", present=cluster_manager(first), catalog=catalog)
    changed = replace(again, settings={TRUSTED.flag: "zenith"})

    assert again.spec == {**first.spec, "imagePullSpec": "registry.example/hub:2"}
    assert changed.spec["registrationConfiguration"]["registrationDrivers"] == [
        {"authType": "csr"},
        {"authType": VOUCHER, VOUCHER: {"issuers": ["zenith"]}},
    ]


def test_repeated_join_keeps_the_options_of_its_driver() -> None:
    first = ClusterMembership("edge", registration_auth=VOUCHER, settings=SETTINGS, catalog=a_catalog())

    again = ClusterMembership("edge", present=klusterlet_manifest(first), catalog=a_catalog())

    assert again.spec == first.spec
    assert validate_membership(again) == []


@pytest.mark.parametrize(
    ("settings", "objections"),
    [
        pytest.param({}, ["--voucher-issuer is missing: the driver voucher requires it"], id="missing"),
        pytest.param({ISSUER.flag: "ACME"}, ["an issuer is written in lower case"], id="refused by the option"),
        pytest.param(SETTINGS, [], id="good"),
    ],
)
def test_agent_refuses_wrong_options_of_its_driver(settings: dict[str, str], objections: list[str]) -> None:
    options = AgentOptions("edge", registration_auth=VOUCHER, settings=settings)

    assert validate_agent_options(options, a_catalog()) == objections


def test_required_option_of_another_driver_is_not_missed() -> None:
    assert validate_agent_options(AgentOptions("edge"), a_catalog()) == []


def annotated(annotations: dict[str, str]) -> Object:
    return {"metadata": {"name": "edge", "annotations": annotations}}


def test_cluster_is_recognised_by_annotation_and_falls_to_the_default_without() -> None:
    catalog = a_catalog()

    assert catalog.driver_of(annotated({ANNOTATION: "acme"})).name == VOUCHER
    assert catalog.driver_of(annotated({ANNOTATION: ""})).name == "csr"
    assert catalog.driver_of(annotated({})).name == "csr"


def test_cluster_with_annotations_of_two_drivers_is_refused() -> None:
    other = VoucherDriver(connect_nothing, name="pass", annotations=("pass.example.com/x",))
    catalog = Catalog((*a_catalog().drivers, other))

    with pytest.raises(AmbiguousDriver, match="cluster edge name the drivers voucher and pass"):
        catalog.driver_of(annotated({ANNOTATION: "a", "pass.example.com/x": "b"}))


def test_unknown_driver_is_answered_with_those_that_the_catalog_knows() -> None:
    with pytest.raises(UnknownDriver, match="by which clusters register: choose one of aws-irsa, csr, grpc, voucher"):
        a_catalog().find("pigeon")
