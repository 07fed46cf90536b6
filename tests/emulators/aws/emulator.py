"""Serves IAM, STS and EKS on one address, and the webhooks of the clusters on another."""

from __future__ import annotations

import tempfile
from base64 import b64encode
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self
from urllib.parse import parse_qsl

import orjson
from msgspec import Struct
from tests.emulators.aws.eks import API_AND_CONFIG_MAP, EksClusterState, EksService, eks_action
from tests.emulators.aws.errors import AwsFault, fault_response
from tests.emulators.aws.faults import Call, Faults
from tests.emulators.aws.iam_store import IamStore
from tests.emulators.aws.journal import Change, Journal, is_change
from tests.emulators.aws.oidc import OidcProviders
from tests.emulators.aws.pod_identity import PodIdentityWebhook
from tests.emulators.aws.principals import AccessKey, AccessKeys, Principal
from tests.emulators.aws.roles import Roles
from tests.emulators.aws.signatures import CLOCK_SKEW, PRESIGNED_LIFETIME, RequestSignature, read_signature
from tests.emulators.aws.sts import SecurityTokenService
from tests.emulators.aws.token_review import TokenReviewWebhook
from tests.emulators.tls_server import LOOPBACK, TlsServer, serve_tls
from tests.helpers.kubeconfigs import kubeconfig

from watchword.api.http import Request, Response
from watchword.api.meta import Object, ObjectKey
from watchword.api.resources import CONFIG_MAPS, SERVICE_ACCOUNTS
from watchword.http.limits import ServerLimits
from watchword.http.server import HttpServer
from watchword.kube.client import Client
from watchword.kube.connect import connect
from watchword.kube.errors import NotFound
from watchword.kube.kubeconfig import ResolvedContext
from watchword.kube.kubeconfig_files import load_kubeconfig
from watchword.pki.authority import Authority
from watchword.runtime.clock import Clock, SystemClock

AWS_AUTH = ObjectKey("kube-system", "aws-auth")
KEY_SET_REQUEST = Request("GET", "/openid/v1/jwks", headers=(("Accept", "application/jwk-set+json"),))
ISSUER = "kubernetes.default.svc"
"""The issuer of ServiceAccount tokens of a control plane that was not told another, without https://."""


@dataclass
class EksCluster:
    """An EKS cluster: its ARN, and the control plane that stands for it, which need not run yet."""

    arn: str
    kubeconfig: Path | None = None  # of an administrator
    authentication_mode: str = API_AND_CONFIG_MAP
    oidc_provider: str = ISSUER

    @property
    def account(self) -> str:
        """The account of the cluster."""
        return self.arn.split(":")[4]

    def describe(self) -> Object:
        """Return what DescribeCluster adds: endpoint, certificate authority, issuer."""
        found: Object = {"identity": {"oidc": {"issuer": f"https://{self.oidc_provider}"}}}
        if self.kubeconfig is None:
            return found
        entry = self._context(self.kubeconfig).cluster
        ca = entry.ca_data or (entry.ca_file.read_bytes() if entry.ca_file else b"")
        return {**found, "endpoint": entry.server, "certificateAuthority": {"data": b64encode(ca).decode()}}

    async def read_keys(self) -> bytes:
        """Return the JWKS of the cluster."""
        client = self._client()
        try:
            response = await client.transport.send(KEY_SET_REQUEST)
        finally:
            await client.close()
        if response.status != 200:
            raise AwsFault("IDPCommunicationError", f"the cluster {self.arn} does not publish its keys")
        return response.body

    async def read_aws_auth(self) -> str:
        """Return the role mappings of the ConfigMap `aws-auth`, empty when there is none."""
        client = self._client()
        try:
            found = await client.get(CONFIG_MAPS, AWS_AUTH)
        except NotFound:
            return ""
        finally:
            await client.close()
        return str((found.get("data") or {}).get("mapRoles") or "")

    async def read_account(self, key: ObjectKey) -> Object:
        """Return a ServiceAccount of the cluster."""
        client = self._client()
        try:
            return await client.get(SERVICE_ACCOUNTS, key)
        finally:
            await client.close()

    def _client(self) -> Client:
        if self.kubeconfig is None:
            raise AwsFault("ServerException", f"no control plane stands for {self.arn}", 500)
        return connect(self.kubeconfig)

    @staticmethod
    def _context(path: Path) -> ResolvedContext:
        return load_kubeconfig(path).choose()


class Received(Struct, frozen=True):
    """A request of a known caller."""

    request: Request
    parameters: dict[str, str]
    signature: RequestSignature
    principal: Principal


@dataclass
class AwsEmulator:
    """AWS for tests: `async with AwsEmulator() as aws`. One for a process, for moto keeps its state in globals."""

    clock: Clock = field(default_factory=SystemClock)
    port: int = 0
    endpoint_url: str = ""
    calls: list[Call] = field(default_factory=list)
    journal: Journal | None = None  # where changes are kept for the next process
    host: str = LOOPBACK  # the address on which it listens

    def __post_init__(self) -> None:
        self.keys = AccessKeys()
        self.faults = Faults(self.clock)
        self.oidc_providers = OidcProviders()
        self._store = IamStore()
        self._roles = Roles(self._store)
        self._sts = SecurityTokenService(self._store, self._roles, self.keys, self.oidc_providers, self.clock)
        self._eks = EksService(self._store, self._roles, self.clock)
        self._webhooks: dict[str, TokenReviewWebhook] = {}
        self._pods: dict[str, PodIdentityWebhook] = {}
        self._authority = Authority.make("aws-emulator", now=datetime.now(UTC))
        self._reviews = TlsServer()
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        listener = HttpServer(self._handle, ServerLimits(drain_seconds=0.1))
        self.port = await listener.start(self.host, self.port)
        self._stack.push_async_callback(listener.stop)
        self.endpoint_url = f"http://{self.host}:{self.port}"
        reviews = serve_tls(self._review, self._authority, folder, host=self.host)
        self._reviews = await self._stack.enter_async_context(reviews)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    def administrator(self, account: str, partition: str = "aws") -> AccessKey:
        """Issue an access key that may do everything in an account."""
        return self.keys.add_administrator(account, partition)

    def add_cluster(self, cluster: EksCluster) -> EksClusterState:
        """Serve a cluster, and let its account trust the ServiceAccounts of the cluster."""
        state = EksClusterState(cluster.arn, cluster.authentication_mode, cluster.describe)
        self._eks.clusters[cluster.arn] = state
        self.oidc_providers.add(cluster.account, cluster.oidc_provider, cluster.read_keys)
        self._webhooks[_webhook_path(cluster.arn)] = TokenReviewWebhook(
            state, self.keys, self.clock, self.endpoint_url, cluster.read_aws_auth
        )
        self._pods[f"{_webhook_path(cluster.arn)}/pods"] = PodIdentityWebhook(
            cluster.arn.split(":")[3], self.endpoint_url, cluster.read_account
        )
        return state

    def webhook_kubeconfig(self, cluster_arn: str) -> bytes:
        """Return what `--authentication-token-webhook-config-file` of the cluster's API server names."""
        document = kubeconfig(self._reviews.url + _webhook_path(cluster_arn), self._authority.certificate.pem, {})
        return orjson.dumps(document)

    def pod_identity_configuration(self, cluster_arn: str) -> Object:
        """Return the MutatingWebhookConfiguration that an EKS cluster has for the identity of pods."""
        authority = b64encode(self._authority.certificate.pem).decode()
        row = {
            "name": "pod-identity.amazonaws.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": f"{self._reviews.url}{_webhook_path(cluster_arn)}/pods", "caBundle": authority},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
        return {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "pod-identity-webhook"},
            "webhooks": [row],
        }

    def webhook(self, cluster_arn: str) -> TokenReviewWebhook:
        """Return what answers the token reviews of a cluster."""
        return self._webhooks[_webhook_path(cluster_arn)]

    def end_sessions(self, role_arn: str) -> None:
        """End the sessions of a role, and with them the tokens that they signed, as after their lifetime."""
        self.keys.remove_sessions(role_arn)

    def hide_new_roles(self, delay: timedelta) -> None:
        """Let EKS refuse roles that were created less than this ago, as IAM is eventually consistent."""
        self._eks.principal_delay = delay

    async def replay(self) -> None:
        """Repeat the changes of the journal; the clusters that they name are added before."""
        for change in self.journal.read() if self.journal is not None else ():
            owner = f"arn:{change.partition}:iam::{change.account}:user/administrator"
            caller = Principal(change.account, owner, change.partition)
            signed = RequestSignature("", change.region, change.service, self.clock.now(), (), "")
            parameters = dict(change.query) | dict(parse_qsl(change.body))
            await self._answer(change.action, Received(change.request, parameters, signed, caller))

    def _keep(self, action: str, received: Received, response: Response) -> None:
        signed, caller, request = received.signature, received.principal, received.request
        if self.journal is None or signed.service == "sts" or response.status >= 400 or not is_change(action):
            return
        self.journal.append(
            Change(
                signed.service,
                action,
                signed.region,
                caller.account,
                caller.partition,
                request.method,
                request.path,
                request.query,
                request.header("Content-Type"),
                request.body.decode(),
            )
        )

    async def _handle(self, request: Request) -> Response:
        parameters = dict(request.query) | dict(parse_qsl(request.body.decode(errors="replace")))
        action, principal, service = parameters.get("Action", ""), None, "sts"
        try:
            found = read_signature(request)
            service = found.service if found is not None else "sts"
            self.faults.check_rate(service)
            if found is None and action == "AssumeRoleWithWebIdentity":
                self.faults.check_action(action)
                response = await self._sts.assume_with_token(request, parameters)
            else:
                principal, found = self._authenticate(request, found)
                action = eks_action(request) if found.service == "eks" else action
                self.faults.check_action(action)
                received = Received(request, parameters, found, principal)
                response = await self._answer(action, received)
                self._keep(action, received, response)
        except AwsFault as fault:
            self.calls.append(Call(service, action, principal.account if principal else "", fault.code))
            return fault_response(service, fault)
        self.calls.append(Call(service, action, principal.account if principal else ""))
        return response

    def _authenticate(self, request: Request, found: RequestSignature | None) -> tuple[Principal, RequestSignature]:
        if found is None:
            raise AwsFault("MissingAuthenticationToken", "Request is missing Authentication Token", 403)
        lifetime = PRESIGNED_LIFETIME if found.presigned else CLOCK_SKEW
        return self.keys.authenticate(request, found, now=self.clock.now(), lifetime=lifetime), found

    async def _answer(self, action: str, received: Received) -> Response:
        request, parameters, caller = received.request, received.parameters, received.principal
        if received.signature.service == "sts":
            return await self._sts.answer(request, parameters, caller)
        if received.signature.service == "eks":
            return self._eks.answer(action, request, received.signature.region, caller)
        if received.signature.service != "iam":
            raise AwsFault("InvalidAction", f"The emulator does not serve {received.signature.service}")
        role = f"arn:{caller.partition}:iam::{caller.account}:role/{parameters.get('RoleName', '*')}"
        self._roles.authorize(
            caller, f"iam:{action}", role if "RoleName" in parameters else parameters.get("PolicyArn", role)
        )
        self._roles.check_trust_policy(caller, action, parameters)
        return self._store.answer(request, caller.account)

    async def _review(self, request: Request) -> Response:
        webhook = self._webhooks.get(request.path) or self._pods.get(request.path)
        if webhook is None:
            return Response(404)
        answer = await webhook.review(orjson.loads(request.body))
        return Response(200, (("Content-Type", "application/json"),), orjson.dumps(answer))


def _webhook_path(arn: str) -> str:
    _, _, _, region, account, name = arn.split(":")
    return f"/{account}/{region}/{name.removeprefix('cluster/')}"
