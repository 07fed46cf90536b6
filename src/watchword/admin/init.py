"""Makes a cluster a hub that others can join: the steps of `init`."""

import contextlib
import hmac
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from watchword.admin import hub_setup
from watchword.admin.errors import NotReady, OperationRefused
from watchword.admin.wait import ObjectWaiter
from watchword.api.bootstrap import CLUSTER_INFO, MANAGED_CLUSTER_GROUP
from watchword.api.limits import BOOTSTRAP_TOKEN_TTL
from watchword.api.meta import Object, ObjectKey
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, CLUSTER_MANAGERS, CONFIG_MAPS
from watchword.api.validation import parse_duration
from watchword.credentials.certificates.requests import (
    APPROVED,
    DENIED,
    FAILED,
    CertificateSpec,
    certificate_request_manifest,
    read_decision,
    with_decision,
)
from watchword.discovery.cluster_info import ClusterInfo, fetch_cluster_info, is_answering, read_cluster_info
from watchword.discovery.discover import ClientFactory, HttpsClientFactory, Progress, ignore_progress
from watchword.discovery.errors import ClusterInfoRefused, DiscoveryError
from watchword.discovery.token_secret import BOTH_USAGES, TokenRecord, TokenStore
from watchword.discovery.tokens import BootstrapToken
from watchword.kube.client import Client
from watchword.kube.endpoint import is_loopback
from watchword.kube.errors import ApiStatusError, Forbidden, KubeError, NotFound
from watchword.operator.cluster_manager import CLUSTER_MANAGER, enabled_drivers, hub_settings
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.registration.catalog import CATALOG, Catalog
from watchword.registration.driver import NamesJoinFlags, RequestsCertificate, WarnsHub
from watchword.runtime.clock import Clock

DESCRIPTION = "made by watchword init"


class TokenSpec(Struct, frozen=True):
    """Which token is wanted; `token` is None when any will do."""

    ttl: timedelta = parse_duration(BOOTSTRAP_TOKEN_TTL)  # zero: for ever
    token: BootstrapToken | None = None
    groups: tuple[str, ...] = (MANAGED_CLUSTER_GROUP,)


async def ensure_token(store: TokenStore, spec: TokenSpec, *, now: datetime, dry_run: bool = False) -> TokenRecord:
    """Return a token as wished, an earlier one when it still serves; `BootstrapTokenRefused` when its id is taken."""
    records, _ = await store.list()
    present = choose_reusable_token(records, spec, now=now)
    if present is not None:
        return present
    token = spec.token or BootstrapToken.generate()
    expires = now + spec.ttl if spec.ttl else None
    record = TokenRecord(token, expires=expires, description=DESCRIPTION, groups=spec.groups)
    await store.create(record, dry_run=dry_run)
    return record


def choose_reusable_token(records: Iterable[TokenRecord], spec: TokenSpec, *, now: datetime) -> TokenRecord | None:
    """Return an existing token to use: the given one, or one of an earlier run with half its lifetime left."""
    for record in records:
        if record.usages != BOTH_USAGES or record.groups != spec.groups or record.is_expired(now):
            continue
        if spec.token is not None:
            if record.token.id == spec.token.id and hmac.compare_digest(record.token.reveal(), spec.token.reveal()):
                return record
        elif record.description == DESCRIPTION and _has_enough_time_left(record, spec, now):
            return record
    return None


def _has_enough_time_left(record: TokenRecord, spec: TokenSpec, now: datetime) -> bool:
    if record.expires is None or not spec.ttl:
        return record.expires is None and not spec.ttl
    return spec.ttl / 2 <= record.expires - now <= spec.ttl


PATIENCE = timedelta(seconds=5)
PROBE_USER = "watchword:signer-probe"  # it has no rights, and its key is discarded
PROBE_LIFETIME = timedelta(minutes=10)  # the shortest that the API allows
CONSEQUENCE = "clusters cannot register by certificate here"


class SignerProbe(Struct, frozen=True):
    """Requests a certificate that is never used, approves it, and checks whether it is issued."""

    client: Client
    clock: Clock
    signer: str = KUBE_CLIENT_SIGNER
    patience: timedelta = PATIENCE
    progress: Progress = ignore_progress

    async def run(self) -> str:
        """Return why certificates cannot be had, empty when they can; the request is gone afterwards."""
        name = f"watchword-probe-{secrets.token_hex(5)}"
        self.progress(f"asking whether this hub issues client certificates ({name})")
        try:
            return await self._probe_signer(name)
        except ApiStatusError as refusal:
            return f"it could not be found out whether this hub issues client certificates: {refusal}"
        finally:
            with contextlib.suppress(KubeError):
                await self.client.delete(CERTIFICATE_SIGNING_REQUESTS, ObjectKey.cluster(name))

    async def _probe_signer(self, name: str) -> str:
        spec = CertificateSpec(CertificateSubject(PROBE_USER), self.signer, PROBE_LIFETIME, name)
        request = certificate_request_manifest(spec, PrivateKey.generate())
        posted = await self.client.create(CERTIFICATE_SIGNING_REQUESTS, request)
        approval = with_decision(posted, APPROVED, "WatchwordProbe", "asked by watchword init", now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
        waiter, key = ObjectWaiter(self.client, self.patience), ObjectKey.cluster(name)
        try:
            answered = await waiter.until(CERTIFICATE_SIGNING_REQUESTS, key, validate_decided, advice="")
        except NotReady:
            return (
                f"a request was approved, but no certificate came within {int(self.patience.total_seconds())} seconds: "
                f"this hub does not sign for {self.signer}, so {CONSEQUENCE}"
            )
        return validate_probe_result(answered)


def validate_probe_result(answered: Object) -> str:
    decision = read_decision(answered)
    if decision.certificate:
        return ""
    why = (decision.message or decision.reason) if decision.verdict == FAILED else "no reason was given"
    return f"this hub refuses to issue client certificates ({why}), so {CONSEQUENCE}"


def validate_decided(request: Object | None) -> str:
    decision = read_decision(request or {})
    return "" if decision.certificate or decision.verdict in (DENIED, FAILED) else "no certificate"


class InitOptions(Struct, frozen=True):
    """Settings of the hub, and how to apply them."""

    setup: hub_setup.HubSetup
    token: TokenSpec | None = None
    keep_published: bool = True  # prefer what the cluster publishes to what a kubeconfig happens to name
    probe: bool = True
    dry_run: bool = False
    wait: timedelta | None = None


class InitResult(Struct, frozen=True):
    """What came out of it."""

    info: ClusterInfo
    join_flags: Mapping[str, tuple[str, ...]]  # of each driver, the one of the join command first
    record: TokenRecord | None
    applied: list[str]
    warnings: list[str]


class HubInitializer(Struct, frozen=True):
    """Makes the cluster behind a client a hub; every step may be repeated."""

    client: Client
    clock: Clock
    progress: Progress = field(default=ignore_progress)
    client_factory: ClientFactory = field(default_factory=HttpsClientFactory)

    async def run(self, options: InitOptions) -> InitResult:
        """Apply, hand out a token, try the signer, wait; raises what the server or the token store raises."""
        setup, warnings = options.setup, list[str]()
        if options.keep_published:
            setup, warnings = await self._with_published(options.setup)
        setup = await hub_setup.read_present(self.client, setup)
        applied = await hub_setup.set_up_hub(self.client, setup, dry_run=options.dry_run)
        self.progress(f"{'would apply' if options.dry_run else 'applied'} {len(applied)} objects")
        record = None
        if options.token is not None:
            store = TokenStore(self.client)
            record = await ensure_token(store, options.token, now=self.clock.now(), dry_run=options.dry_run)
        warnings += choose_warnings(setup)
        if options.probe and not options.dry_run:
            warnings += await self._probe(setup)
        if options.wait is not None and not options.dry_run:
            await hub_setup.await_hub(ObjectWaiter(self.client, options.wait, self.progress), setup, record)
        flags = choose_join_flags(hub_setup.cluster_manager(setup), setup.catalog)
        return InitResult(setup.info, flags, record, applied, warnings)

    async def _with_published(self, setup: hub_setup.HubSetup) -> tuple[hub_setup.HubSetup, list[str]]:
        """Return the setup with what is published already, and a warning when no published address answers."""
        try:
            published = read_cluster_info((await fetch_cluster_info(self.client)).text)
        except (KubeError, ClusterInfoRefused):
            return setup, []
        own = setup.info
        if published.authorities != own.authorities:
            return setup, []  # what another cluster published: it was copied here
        is_local_only = is_loopback(own.server) and not is_loopback(published.server)
        if own.server in published.endpoints or is_local_only or await self._is_reached(published):
            return replace(setup, info=published), []
        moved = replace(own, endpoints=(own.server, *published.endpoints))
        warning = (
            f"{published.server} was published and does not answer: {own.server} is published first now; "
            "name all addresses with --hub-apiserver to drop the old one"
        )
        return replace(setup, info=moved), [warning]

    async def _is_reached(self, published: ClusterInfo) -> bool:
        for server in published.endpoints:
            async with self.client_factory.verified(server, published.ca_bundle) as client:
                if await is_answering(client):
                    return True
        return False

    async def _probe(self, setup: hub_setup.HubSetup) -> list[str]:
        drivers = setup.catalog.known(setup.chosen_drivers)
        signers = {driver.signer for driver in drivers if isinstance(driver, RequestsCertificate)} - {""}
        probes = [SignerProbe(self.client, self.clock, signer, progress=self.progress) for signer in sorted(signers)]
        found = [problem for probe in probes if (problem := await probe.run())]
        return [f"{problem}; {advise_other_drivers(setup.catalog)}" for problem in found]


def advise_other_drivers(catalog: Catalog) -> str:
    """Return what to do on a hub that issues no certificates: name the drivers that need none."""
    drivers = catalog.drivers
    others = [each.name for each in drivers if not (isinstance(each, RequestsCertificate) and each.signer)]
    if not others:
        return "let a signer run, as kube-controller-manager does"
    return f"run a signer, or `watchword init --registration-auth {' or '.join(others)}`, which does not need it"


def choose_warnings(setup: hub_setup.HubSetup) -> list[str]:
    """Return what is allowed and yet probably not meant."""
    drivers = setup.catalog.known(setup.chosen_drivers)
    beside = [driver.warn_beside(drivers) for driver in drivers if isinstance(driver, WarnsHub)]
    local = f"only this machine reaches {setup.info.server}: name another address with --hub-apiserver"
    return [*filter(None, beside), *([local] if is_loopback(setup.info.server) else [])]


def choose_join_flags(manager: Object, catalog: Catalog) -> Mapping[str, tuple[str, ...]]:
    """Return what `join` needs for each driver of a hub; the driver that needs nothing comes first."""
    settings, drivers = hub_settings(manager, catalog), enabled_drivers(manager, catalog)
    flags = {each.name: each.join_flags(settings) if isinstance(each, NamesJoinFlags) else () for each in drivers}
    return dict(sorted(flags.items(), key=lambda row: bool(row[1])))


async def read_join_flags(client: Client) -> Mapping[str, tuple[str, ...]]:
    """Return the same for the hub as it is; the default driver's where its settings cannot be read."""
    manager: Object | None = None
    with contextlib.suppress(Forbidden):
        manager = await client.find(CLUSTER_MANAGERS, ObjectKey.cluster(CLUSTER_MANAGER))
    return choose_join_flags(manager, CATALOG) if manager else {CATALOG.default: ()}


SIGNING_PATIENCE = timedelta(seconds=10)


async def require_joinable_hub(client: Client, record: TokenRecord) -> ClusterInfo:
    """Return what the hub publishes; `OperationRefused` when no cluster could join by the token."""
    if record.usages != BOTH_USAGES:
        raise OperationRefused("a join command needs a token of both usages: leave --usages out")
    try:
        return read_cluster_info((await fetch_cluster_info(client)).text)
    except (NotFound, DiscoveryError, ClusterInfoRefused) as cause:
        raise OperationRefused(
            f"this cluster publishes no usable cluster-info ({CLUSTER_INFO}), so no cluster can find it by a token: "
            "run `watchword init`"
        ) from cause


async def await_signature(client: Client, token_id: str) -> None:
    advice = f"do the hub's controllers run? `watchword doctor` tells; `watchword token delete {token_id}` undoes this"
    signed = partial(hub_setup.validate_signed, token_id)
    await ObjectWaiter(client, SIGNING_PATIENCE).until(CONFIG_MAPS, CLUSTER_INFO, signed, advice=advice)
