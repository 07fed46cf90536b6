"""What the Secret of a credential holds, and what it should hold next."""

import base64
import binascii
from collections.abc import Mapping
from typing import Protocol

from msgspec import field

from watchword.api.meta import Object
from watchword.api.sensitive import HiddenFields
from watchword.credentials.driver import NewCredential, ObtainResult, Pending, SecretData
from watchword.kube.kubeconfig import ClusterEntry, ContextEntry, Kubeconfig, UserEntry
from watchword.kube.kubeconfig_files import dump_kubeconfig

CLUSTER_NAME, AGENT_NAME = "cluster-name", "agent-name"

# The names that OCM's agent uses, so that either agent can take over the other's Secret.
HUB, USER, CONTEXT, NAMESPACE = "hub", "default-auth", "default-context", "configuration"

MAX_CACHED_KUBECONFIGS = 3  # one for each driver, and one that was valid before the hub moved


def decode_data(secret: Object | None) -> dict[str, bytes]:
    """Return the Secret's content; what is not base64 is left out, as if it were missing."""
    decoded: dict[str, bytes] = {}
    for name, value in ((secret or {}).get("data") or {}).items():
        try:
            decoded[name] = binascii.a2b_base64(value or "", strict_mode=True)
        except (binascii.Error, ValueError):
            continue
    return decoded


def encode_data(data: SecretData) -> dict[str, str]:
    return {name: base64.b64encode(value).decode() for name, value in sorted(data.items())}


def hub_kubeconfig(hub: ClusterEntry, user: UserEntry, *, name: str = HUB) -> bytes:
    """Return the kubeconfig that goes with a credential; files are beside it."""
    config = Kubeconfig({name: hub}, {USER: user}, {CONTEXT: ContextEntry(name, USER, NAMESPACE)}, CONTEXT)
    return dump_kubeconfig(config)


class HubEndpointSource(Protocol):
    """Knows where the hub is reached."""

    def entry(self) -> ClusterEntry:
        """Return how the hub is reached and trusted; `ConfigError` when that is unknown."""
        ...

    def name(self) -> str: ...


class HubKubeconfigRenderer(HiddenFields, frozen=True):
    """Writes the kubeconfigs that go with credentials, each once while the hub stays where it is."""

    hidden = ("rendered",)

    endpoint: HubEndpointSource
    rendered: list[tuple[tuple[ClusterEntry, str, UserEntry], bytes]] = field(default_factory=list)

    def for_user(self, user: UserEntry) -> bytes:
        entry, name = self.endpoint.entry(), self.endpoint.name()
        for known, text in self.rendered:
            if known == (entry, name, user):
                return text
        text = hub_kubeconfig(entry, user, name=name)
        self.rendered[:] = [((entry, name, user), text), *self.rendered[:MAX_CACHED_KUBECONFIGS]]
        return text


class SecretExtras(HiddenFields, frozen=True):
    """What a Secret holds beside the credential itself."""

    hidden = ("frame", "with_credential")

    frame: SecretData  # always as wanted
    with_credential: SecretData = field(default_factory=dict)  # as wanted once there is a credential it fits
    obsolete_keys: frozenset[str] = frozenset()  # gone once there is: the keys of drivers that served before


def choose_secret_data(
    held: SecretData, answer: ObtainResult, *, owned: frozenset[str], extras: SecretExtras
) -> dict[str, bytes]:
    """Return the content of the Secret after the driver's result.

    Keys of others stay, and a new credential replaces everything its driver owns. Until a new driver has a credential,
    that of the driver before stays usable.
    """
    if isinstance(answer, Pending):
        return {**held, **answer.keep, **extras.frame}
    gone = extras.obsolete_keys | owned if isinstance(answer, NewCredential) else extras.obsolete_keys
    kept = {name: value for name, value in held.items() if name not in gone}
    issued = answer.data if isinstance(answer, NewCredential) else {}
    return {**kept, **issued, **extras.frame, **extras.with_credential}


def data_patch(held: Mapping[str, bytes], wanted: Mapping[str, bytes]) -> dict[str, str | None]:
    """Return the merge patch of `data` that turns one content into the other."""
    gone: dict[str, str | None] = {name: None for name in held if name not in wanted}
    changed = {name: value for name, value in wanted.items() if held.get(name) != value}
    return {**gone, **encode_data(changed)}
