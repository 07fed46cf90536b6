"""The pillars as the contract of a credential's life sees them: a program, the Secret that it keeps, and its server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

import orjson
from tests.accounts.conftest import accounts_fleet
from tests.accounts.fleet import AccountsFleet, Member
from tests.addons.conftest import run_addon_fleet
from tests.addons.fleet import AddonFleet, account_of
from tests.helpers.fleet import (
    AGENTS_NAMESPACE,
    AUTOMATIC,
    FleetHarness,
    PlaneConnector,
    lifetime_settings,
    run_fleet,
    transport_with,
)
from tests.pullsecrets.harness import PullSecretHarness, is_filled, open_pull_secrets, token_of

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey, Resource, annotations_of, uid_of
from watchword.api.names import Annotation, Label, addon_group, addon_user
from watchword.api.pull_secrets import ANNOTATION_PULL_SECRET
from watchword.api.resources import (
    CERTIFICATE_SIGNING_REQUESTS,
    MANAGED_CLUSTER_ADDONS,
    MANAGED_CLUSTERS,
    MANAGED_SERVICE_ACCOUNTS,
    SECRETS,
    SERVICE_ACCOUNTS,
)
from watchword.api.sensitive import Sensitive
from watchword.api.time import parse_rfc3339
from watchword.credentials.certificates.requests import is_pending
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.driver import SecretData
from watchword.credentials.lifecycle import choose_renewal_time, read_bound_token
from watchword.kube.access_reviews import review_token, who_am_i
from watchword.kube.client import Client
from watchword.kube.credentials import Credential
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig import ClusterEntry
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.transport import Transport
from watchword.pki.certificates import parse_certificate
from watchword.pki.errors import PkiError
from watchword.pullsecrets.refresh import choose_refresh_time
from watchword.runtime.clock import Clock, SystemClock
from watchword.testing.eventually import eventually_all
from watchword.testing.plane import Plane

LIFE = timedelta(hours=24)


@dataclass
class JumpingClock(SystemClock):
    """The clock of a machine that is set forward."""

    inner: Clock
    ahead: timedelta = timedelta(0)

    def now(self) -> datetime:
        return self.inner.now() + self.ahead


class Pillar(Protocol):
    """One credential, the program that keeps it, and the server that honours it."""

    @property
    def plane(self) -> Plane: ...

    def use(self, *, through: Callable[[Transport], Transport] | None = None, clock: Clock | None = None) -> None:
        """Let every program that is started from now on use this connection and this clock."""
        ...

    async def prepare(self) -> None:
        """Declare the credential; nothing runs yet that keeps it."""
        ...

    async def start(self) -> None:
        """Run the program that keeps the credential."""
        ...

    async def stop(self) -> None:
        """End it as a killed process would."""
        ...

    async def find(self) -> Object | None:
        """Return the Secret of the credential."""
        ...

    async def is_honoured(self, secret: Object) -> bool:
        """Whether the server honours the credential in a Secret, found by the other fields of it."""
        ...

    def renews_at(self, secret: Object) -> datetime:
        """Return when the credential is due."""
        ...

    async def change_subject(self) -> None:
        """Let the credential be wanted for another subject; the present one must not be used any more."""
        ...

    def is_request(self, sent: Request) -> bool:
        """Whether the credential is requested."""
        ...

    async def refuse(self) -> None:
        """Let the server refuse the present credential, whatever it says of itself."""
        ...

    async def request_renewal(self, request: str) -> None:
        """Ask for another credential, as an administrator does."""
        ...


def credential_of(secret: Object) -> Mapping[str, str]:
    """Return the content of a Secret, encoded."""
    found: Mapping[str, str] = secret.get("data") or {}
    return found


def certificate_in(secret: Object) -> bytes:
    """Return the certificate in a Secret, as DER."""
    return parse_certificate(decode_data(secret)["tls.crt"]).der


async def accepts(client: Client) -> bool:
    """Whether a server accepts the credential of a client."""
    try:
        await who_am_i(client)
    except KubeError:
        return False
    return True


@dataclass
class RefusingConnector(PlaneConnector):
    """Reaches a hub that refuses some certificates, as after a change of its authority."""

    refused: set[bytes] = field(default_factory=set)

    def own(self, data: SecretData) -> Transport:
        return RefusingTransport(super().own(data), parse_certificate(data["tls.crt"]).der, self.refused)

    def with_credential(self, hub: ClusterEntry, credential: Credential) -> Client:
        client, certificate = super().with_credential(hub, credential), credential.certificate
        if certificate is None:
            return client
        return Client(RefusingTransport(client.transport, parse_certificate(certificate.chain).der, self.refused))


@dataclass
class RefusingTransport:
    """A connection with one certificate."""

    inner: Transport
    certificate: bytes
    refused: set[bytes]

    async def send(self, request: Request) -> Response:
        return self._refusal() or await self.inner.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[Response]:
        refusal = self._refusal()
        if refusal is not None:
            yield refusal
            return
        async with self.inner.stream(request) as response:
            yield response

    async def close(self) -> None:
        await self.inner.close()

    def _refusal(self) -> Response | None:
        status = {"kind": "Status", "code": 401, "reason": "Unauthorized", "message": "Unauthorized"}
        return Response(401, body=orjson.dumps(status)) if self.certificate in self.refused else None


@dataclass
class Registration:
    """The certificate of a cluster."""

    harness: FleetHarness
    name: str = "edge"
    agent_name: str = "first"
    programs: list[asyncio.Task[None]] = field(default_factory=list)
    refused: set[bytes] = field(default_factory=set)  # certificates

    @property
    def plane(self) -> Plane:
        return self.harness.plane

    def use(self, *, through: Callable[[Transport], Transport] | None = None, clock: Clock | None = None) -> None:
        self.harness.through, self.harness.agent_clock = through or self.harness.through, clock

    async def prepare(self) -> None:
        self.harness.start_hub(AUTOMATIC)

    async def start(self) -> None:
        connector = RefusingConnector(self.plane, through=self.harness.through, refused=self.refused)
        settings = lifetime_settings(certificate=LIFE)
        self.programs = [
            self.harness.start_agent(self.name, connector=connector, agent_name=self.agent_name, settings=settings)
        ]

    async def stop(self) -> None:
        await self.harness.stop(*self.programs)

    async def find(self) -> Object | None:
        return await self.harness.client.find(SECRETS, ObjectKey(AGENTS_NAMESPACE, f"hub-{self.name}"))

    async def is_honoured(self, secret: Object) -> bool:
        data = decode_data(secret)
        if not {"tls.crt", "tls.key", "kubeconfig"} <= data.keys() or "pending.key" in data:
            return False
        try:
            client = Client(transport_with(self.plane, data["tls.crt"], data["tls.key"]))
            parse_kubeconfig(data["kubeconfig"]).choose()
            who = parse_certificate(data["tls.crt"]).common_name
        except (PkiError, KubeError):
            return False
        is_refused = certificate_in(secret) in self.refused
        return who.endswith(f":{self.agent_name}") and not is_refused and await accepts(client)

    def renews_at(self, secret: Object) -> datetime:
        leaf = parse_certificate(decode_data(secret)["tls.crt"])
        return choose_renewal_time(leaf.not_before, leaf.not_after, seed=leaf.key.thumbprint)

    async def change_subject(self) -> None:
        await self.stop()
        self.agent_name = "second"
        await self.start()
        await self._approve()

    async def _approve(self) -> None:
        """Decide as the hub's administrator: the hub does not give the name of a joined cluster to another key."""
        found = await eventually_all(
            self.harness.client,
            CERTIFICATE_SIGNING_REQUESTS,
            lambda state: any(map(is_pending, state.values())),
            within=3600,
        )
        (request,) = [csr for csr in found.values() if is_pending(csr)]
        approved = {"type": "Approved", "status": "True", "reason": "Accepted", "message": "by the administrator"}
        patch = {**request, "status": {"conditions": [approved]}}
        await self.harness.client.update(CERTIFICATE_SIGNING_REQUESTS, patch, subresource="approval")

    def is_request(self, sent: Request) -> bool:
        return sent.path.endswith("/certificatesigningrequests")

    async def refuse(self) -> None:
        self.refused.add(certificate_in(await self.find() or {}))
        await self._approve()

    async def request_renewal(self, request: str) -> None:
        await annotate(self.harness.client, MANAGED_CLUSTERS, ObjectKey.cluster(self.name), request)


@dataclass
class AddonToken:
    """The token of an add-on."""

    fleet: AddonFleet
    cluster: str = ""
    key: ObjectKey = ObjectKey("", "")  # noqa: RUF009 - frozen

    @property
    def plane(self) -> Plane:
        return self.fleet.plane

    def use(self, *, through: Callable[[Transport], Transport] | None = None, clock: Clock | None = None) -> None:
        members = self.fleet.members
        members.through, members.agent_clock = through or members.through, clock

    async def prepare(self) -> None:
        self.cluster = await self.fleet.cluster(life=LIFE)
        await self.stop()
        self.key = await self.fleet.enable("reporter", self.cluster)

    async def start(self) -> None:
        await self.fleet.start_agent(self.cluster, life=LIFE)

    async def stop(self) -> None:
        await self.fleet.stop_agent(self.cluster)

    async def find(self) -> Object | None:
        return await self.fleet.client.find(SECRETS, self.fleet.secret_key(self.key))

    async def is_honoured(self, secret: Object) -> bool:
        data = decode_data(secret)
        token = data.get("token", b"").decode(errors="replace")
        if read_bound_token(token) is None or "kubeconfig" not in data:
            return False
        return await accepts(self.fleet.as_token(data["token"]))

    def renews_at(self, secret: Object) -> datetime:
        found = parse_rfc3339(decode_data(secret)["refresh-at"].decode())
        assert found is not None
        return found

    async def change_subject(self) -> None:
        await self.fleet.client.delete(SERVICE_ACCOUNTS, account_of(self.key))

    def is_request(self, sent: Request) -> bool:
        return sent.path.endswith(("/robot/token", "/builder/token", "-reporter-agent/token"))

    async def refuse(self) -> None:
        await self.plane.rotate_signing_key(keep_old=False)

    async def request_renewal(self, request: str) -> None:
        await annotate(self.fleet.client, MANAGED_CLUSTER_ADDONS, self.key, request)


@dataclass
class AddonCertificate(AddonToken):
    """The certificate of an add-on for the API server of the hub."""

    agent_name: str = "reporter"
    refused: set[bytes] = field(default_factory=set)  # certificates

    async def start(self) -> None:
        self.fleet.connectors[self.cluster] = RefusingConnector(self.plane, refused=self.refused)
        await self.fleet.start_agent(self.cluster, auth="csr", settings=lifetime_settings(certificate=LIFE))

    async def is_honoured(self, secret: Object) -> bool:
        data = decode_data(secret)
        if not {"tls.crt", "tls.key", "kubeconfig"} <= data.keys() or "pending.key" in data:
            return False
        try:
            client = Client(transport_with(self.plane, data["tls.crt"], data["tls.key"]))
            who = parse_certificate(data["tls.crt"])
        except (PkiError, KubeError):
            return False
        is_wanted = who.common_name.endswith(f":{self.agent_name}") and who.der not in self.refused
        return is_wanted and await accepts(client)

    def renews_at(self, secret: Object) -> datetime:
        leaf = parse_certificate(decode_data(secret)["tls.crt"])
        return choose_renewal_time(leaf.not_before, leaf.not_after, seed=leaf.key.thumbprint)

    async def change_subject(self) -> None:
        self.agent_name = "second"
        groups = [addon_group(self.cluster, self.key.name)]
        subject = {"user": addon_user(self.cluster, self.key.name, self.agent_name), "groups": groups}
        await self.fleet.register(self.key, {"type": "kubeClient", "kubeClient": {"driver": "csr", "subject": subject}})

    def is_request(self, sent: Request) -> bool:
        return sent.path.endswith("/certificatesigningrequests") and Label.ADDON_NAME.encode() in sent.body

    async def refuse(self) -> None:
        self.refused.add(certificate_in(await self.find() or {}))


@dataclass
class ManagedAccount:
    """The token of a managed service account."""

    fleet: AccountsFleet
    member: Member | None = None
    key: ObjectKey = ObjectKey("", "")  # noqa: RUF009 - frozen

    @property
    def plane(self) -> Plane:
        return self.fleet.plane

    def use(self, *, through: Callable[[Transport], Transport] | None = None, clock: Clock | None = None) -> None:
        harness = self.fleet.harness
        harness.through, harness.agent_clock = through or harness.through, clock

    async def prepare(self) -> None:
        self.member = await self.fleet.cluster(addon=False)
        await self.fleet.enable(self.member)
        self.key = await self.fleet.declare(self.member.name, "robot", rotation={"validity": "24h"})

    async def start(self) -> None:
        assert self.member is not None
        # The agent's own token is replaced by its kubelet, which is not in this test.
        await self.fleet.start_agent(self.member, local=self.plane.fresh_client())

    async def stop(self) -> None:
        assert self.member is not None
        await self.fleet.stop_agent(self.member)

    async def find(self) -> Object | None:
        self.account = await self.fleet.client.find(MANAGED_SERVICE_ACCOUNTS, self.key)
        return await self.fleet.client.find(SECRETS, self.key)

    async def is_honoured(self, secret: Object) -> bool:
        data = decode_data(secret)
        token = data.get("token", b"").decode(errors="replace")
        if read_bound_token(token) is None or data.get("ca.crt") != self.plane.ca_pem:
            return False
        return await accepts(self.fleet.as_token(token))

    def renews_at(self, secret: Object) -> datetime:
        found = parse_rfc3339(((self.account or {}).get("status") or {}).get("nextRenewalTimestamp", ""))
        assert found is not None, secret
        return found

    async def change_subject(self) -> None:
        assert self.member is not None
        await self.fleet.client.delete(SERVICE_ACCOUNTS, self.fleet.local(self.member, "robot"))

    def is_request(self, sent: Request) -> bool:
        return sent.path.endswith(("/robot/token", "/builder/token", "-reporter-agent/token"))

    async def refuse(self) -> None:
        await self.plane.rotate_signing_key(keep_old=False)

    async def request_renewal(self, request: str) -> None:
        await annotate(self.fleet.client, MANAGED_SERVICE_ACCOUNTS, self.key, request)


@dataclass
class PullSecret:
    """The token in an image pull secret."""

    harness: PullSecretHarness

    @property
    def plane(self) -> Plane:
        return self.harness.plane

    def use(self, *, through: Callable[[Transport], Transport] | None = None, clock: Clock | None = None) -> None:
        self.harness.through, self.harness.clock = through or self.harness.through, clock

    async def prepare(self) -> None:
        await self.harness.configure(token_lifetime_seconds=str(int(LIFE.total_seconds())))
        await self.harness.account("builder")

    async def start(self) -> None:
        self.harness.start()

    async def stop(self) -> None:
        await self.harness.stop()

    async def find(self) -> Object | None:
        account = await self.harness.client.find(SERVICE_ACCOUNTS, self.harness.key("builder"))
        name = annotations_of(account or {}).get(ANNOTATION_PULL_SECRET, "")
        return await self.harness.client.find(SECRETS, self.harness.key(name)) if name else None

    async def is_honoured(self, secret: Object) -> bool:
        try:
            token = token_of(secret) if is_filled(secret) else ""
        except (ValueError, AssertionError, KeyError, AttributeError):  # what a test wrote into it
            return False
        return bool(token) and await review_token(self.harness.client, Sensitive(token)) is not None

    def renews_at(self, secret: Object) -> datetime:
        token = read_bound_token(token_of(secret))
        assert token is not None
        return choose_refresh_time(token, seed=uid_of(secret))

    async def change_subject(self) -> None:
        await self.harness.client.delete(SERVICE_ACCOUNTS, self.harness.key("builder"))
        await self.harness.account("builder")

    def is_request(self, sent: Request) -> bool:
        return sent.path.endswith(("/robot/token", "/builder/token", "-reporter-agent/token"))

    async def refuse(self) -> None:
        await self.plane.rotate_signing_key(keep_old=False)

    async def request_renewal(self, request: str) -> None:
        lifetime = str(int(LIFE.total_seconds()))
        await self.harness.configure(token_lifetime_seconds=lifetime, registries=f"{request}.example")


async def change_signer(pillar: Pillar) -> None:
    """Let another key sign tokens; the server still honours those of the earlier one."""
    await pillar.plane.rotate_signing_key(keep_old=True)


async def annotate(client: Client, kind: Resource, key: ObjectKey, request: str) -> None:
    """Ask for an early renewal."""
    await client.patch(kind, key, {"metadata": {"annotations": {Annotation.ROTATION_REQUEST: request}}})


@asynccontextmanager
async def registration(plane: Plane) -> AsyncIterator[Pillar]:
    async with run_fleet(plane) as harness:
        yield Registration(harness, harness.name())


@asynccontextmanager
async def addon_token(plane: Plane) -> AsyncIterator[Pillar]:
    async with run_addon_fleet(plane) as fleet:
        yield AddonToken(fleet)


@asynccontextmanager
async def addon_certificate(plane: Plane) -> AsyncIterator[Pillar]:
    async with run_addon_fleet(plane) as fleet:
        yield AddonCertificate(fleet)


@asynccontextmanager
async def managed_account(plane: Plane) -> AsyncIterator[Pillar]:
    async with accounts_fleet(plane) as fleet:
        yield ManagedAccount(fleet)


@asynccontextmanager
async def pull_secret(plane: Plane) -> AsyncIterator[Pillar]:
    async with open_pull_secrets(plane) as harness:
        yield PullSecret(harness)


PILLARS: Mapping[str, Callable[[Plane], AbstractAsyncContextManager[Pillar]]] = {
    "registration": registration,
    "add-on token": addon_token,
    "add-on certificate": addon_certificate,
    "managed account": managed_account,
    "pull secret": pull_secret,
}
