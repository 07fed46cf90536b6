"""The agent's identity: the cluster's name, the agent's name, and the cluster's UID across hubs."""

from __future__ import annotations

import secrets
import string

from watchword.agent.options import AgentOptions
from watchword.agent.secret_data import AGENT_NAME, CLUSTER_NAME, decode_data
from watchword.api.hidden_fields import HiddenFields
from watchword.api.meta import Object, ObjectKey, uid_of
from watchword.api.names import MANAGED_CLUSTERS_GROUP, agent_user, cluster_group
from watchword.drivers.interface import CredentialSubject, SecretData

_ALPHABET = string.ascii_lowercase + string.digits


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
        """The subject of the cluster's credential."""
        groups = (cluster_group(self.cluster), MANAGED_CLUSTERS_GROUP)
        return CredentialSubject(agent_user(self.cluster, self.agent), groups)


def restore_identity(system: Object, secret: Object | None, options: AgentOptions) -> AgentIdentity:
    """Restore the identity from the Secret, and the cluster's UID from the namespace kube-system.

    What is not stored yet is decided now.
    """
    held = decode_data(secret)
    return AgentIdentity(
        cluster=options.cluster_name or _text(held, CLUSTER_NAME),
        agent=options.agent_name or _text(held, AGENT_NAME) or new_agent_name(),
        uid=uid_of(system),
        secret_key=options.secret_key,
        held=held,
    )


def new_agent_name() -> str:
    """Return a name that no other agent of the cluster has."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(5))


def _text(held: SecretData, name: str) -> str:
    return held.get(name, b"").decode(errors="replace")
