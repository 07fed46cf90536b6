"""Which Secret holds which add-on's credential."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from watchword.agent.secret_data import CLUSTER_NAME, decode_data
from watchword.api.addon import Addon, Registration
from watchword.api.meta import Object, ObjectKey, labels_of
from watchword.api.names import Label
from watchword.api.resources import MANAGED_CLUSTER_ADDONS
from watchword.runtime.reconcile import Reader

INDEX = "credential-secret"


class CredentialSecret(Struct, frozen=True):
    """One credential of one add-on, in one Secret."""

    key: ObjectKey
    addon: Addon
    registration: Registration


class AddonCredentialIndex(Struct, frozen=True):
    """Looks up add-ons of this cluster by the Secrets of their credentials, and the other way round."""

    reader: Reader  # of the hub
    cluster: str
    namespace: str  # the default namespace of add-ons

    def credential_secrets(self, addon: Addon) -> list[CredentialSecret]:
        """Return the add-on's credentials; registrations that mean the same Secret are one."""
        namespace = addon.namespace_on_cluster(self.namespace)
        found: dict[ObjectKey, CredentialSecret] = {}
        for registration in addon.registrations:
            key = ObjectKey(namespace, registration.secret_name(addon.name))
            found.setdefault(key, CredentialSecret(key, addon, registration))
        return list(found.values())

    def index(self, obj: Object) -> Iterable[str]:
        """Return the Secrets of an add-on, for the cache's index."""
        return [str(credential_secret.key) for credential_secret in self.credential_secrets(Addon.read(obj))]

    def keys(self, obj: Object) -> list[ObjectKey]:
        """Map an add-on to the Secrets of its credentials."""
        return [credential_secret.key for credential_secret in self.credential_secrets(Addon.read(obj))]

    def all_secret_keys(self) -> list[ObjectKey]:
        """Return the Secrets of every add-on."""
        return [key for obj in self.reader.list(MANAGED_CLUSTER_ADDONS) for key in self.keys(obj)]

    def secret_keys_of(self, addon: str) -> list[ObjectKey]:
        """Return the Secrets of one add-on."""
        obj = self.reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(self.cluster, addon))
        return [] if obj is None else self.keys(obj)

    def find(self, key: ObjectKey, secret: Object | None) -> CredentialSecret | None:
        """Return whose credential a Secret holds; of two that mean the same name, the one it was made for."""
        candidates = self.candidates(key)
        made_for = labels_of(secret).get(Label.ADDON_NAME) if secret is not None else None
        named = [credential_secret for credential_secret in candidates if credential_secret.addon.name == made_for]
        return next(iter(named or candidates), None)

    def candidates(self, key: ObjectKey) -> list[CredentialSecret]:
        """Return every credential that would lie in a Secret of that name."""
        return [
            credential_secret
            for obj in self.reader.by_index(MANAGED_CLUSTER_ADDONS, INDEX, str(key))
            for credential_secret in self.credential_secrets(Addon.read(obj))
            if credential_secret.key == key
        ]

    def labels(self, addon: Addon) -> dict[str, str]:
        """Return what marks a Secret as ours, so that it is found again after a restart."""
        return {Label.CLUSTER_NAME: self.cluster, Label.ADDON_NAME: addon.name}

    def is_labeled(self, secret: Object) -> bool:
        """Whether a Secret was made by an agent of this cluster for some add-on."""
        labels = labels_of(secret)
        return labels.get(Label.CLUSTER_NAME) == self.cluster and Label.ADDON_NAME in labels

    def may_adopt(self, secret: Object, addon: Addon) -> bool:
        """Whether a Secret is this add-on's: labelled so, or left by an agent that does not label its Secrets.

        Agents of Open Cluster Management store the cluster's name with every credential. Any other Secret of that name
        has another owner and stays as it is.
        """
        labels = labels_of(secret)
        if Label.ADDON_NAME in labels or Label.CLUSTER_NAME in labels:
            return all(labels.get(name) == value for name, value in self.labels(addon).items())
        return decode_data(secret).get(CLUSTER_NAME) == self.cluster.encode()
