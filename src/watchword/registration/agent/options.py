"""The options of an agent."""

import secrets
import string
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from msgspec import Struct, field

from watchword.api import names
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.sensitive import HiddenFields
from watchword.credentials.credential_secret import AGENT_NAME, CLUSTER_NAME, decode_data
from watchword.credentials.driver import CredentialSubject, SecretData, Settings
from watchword.registration.agent.cluster_status import ClaimPolicy
from watchword.runtime.leader_election import ElectionTiming


class AgentOptions(Struct, frozen=True):
    """How this cluster joins one hub."""

    cluster_name: str
    agent_name: str = ""  # empty: the one on record, or a new one
    namespace: str = names.AGENT_NAMESPACE
    addon_namespace: str = names.ADDON_NAMESPACE
    hub_secret: str = names.HUB_KUBECONFIG_SECRET
    registration_auth: str = ""  # how the cluster registers; empty: by the default driver
    addon_auth: str = ""  # how its add-ons do; likewise
    settings: Settings = field(default_factory=dict)  # of the drivers
    external_urls: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    claims: ClaimPolicy = field(default_factory=ClaimPolicy)
    eviction_grace: timedelta = timedelta(minutes=60)
    feedback_interval: timedelta = timedelta(seconds=30)
    work_recheck: timedelta = timedelta(minutes=4)  # of works to which nothing has happened
    work_namespaces: frozenset[str] = frozenset()  # protected ones that works without an executor may change
    bootstrap_kubeconfig: Path | None = None  # None: the cluster has its own credential already
    identity: str = "agent"  # of this process, unique among its replicas
    elect: bool = True
    health: tuple[str, int] | None = None
    timing: ElectionTiming = field(default_factory=ElectionTiming)

    @property
    def secret_key(self) -> ObjectKey:
        return ObjectKey(self.namespace, self.hub_secret)

    @property
    def lease_key(self) -> ObjectKey:
        return ObjectKey(self.namespace, f"{self.hub_secret}-lock")


class AgentIdentity(HiddenFields, frozen=True):
    """Kept across restarts by the Secret that holds the credential."""

    hidden = ("held",)

    cluster: str
    agent: str
    uid: str
    secret_key: ObjectKey
    held: SecretData

    @property
    def subject(self) -> CredentialSubject:
        groups = (names.cluster_group(self.cluster), names.MANAGED_CLUSTERS_GROUP)
        return CredentialSubject(names.agent_user(self.cluster, self.agent), groups)


def restore_identity(system: Object, secret: Object | None, options: AgentOptions) -> AgentIdentity:
    """Restore the identity from the Secret, and the UID from kube-system; what is not stored yet is decided now."""
    held = decode_data(secret)
    new_name = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(5))
    return AgentIdentity(
        cluster=options.cluster_name or _text(held, CLUSTER_NAME),
        agent=options.agent_name or _text(held, AGENT_NAME) or new_name,
        uid=uid_of(system),
        secret_key=options.secret_key,
        held=held,
    )


def _text(held: SecretData, name: str) -> str:
    return held.get(name, b"").decode(errors="replace")
