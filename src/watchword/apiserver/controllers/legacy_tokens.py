"""Fills Secrets that request a ServiceAccount's token, and removes those whose account is gone."""

import base64
from collections.abc import Callable

from msgspec import field

from watchword.api.meta import Object, ObjectKey, annotations_of, is_deleting, uid_of
from watchword.api.resources import CONFIG_MAPS, SECRETS, SERVICE_ACCOUNTS
from watchword.apiserver.access.tokens import TokenIssuer
from watchword.apiserver.controllers.namespaces import CLIENTS
from watchword.apiserver.controllers.worker import Controller, Watches, delete_if_unchanged
from watchword.apiserver.serving.model import decode_base64

SECRET_TYPE = "kubernetes.io/service-account-token"  # noqa: S105 - a type, not a secret
NAME_ANNOTATION = "kubernetes.io/service-account.name"
UID_ANNOTATION = "kubernetes.io/service-account.uid"


class LegacyTokenController(Controller[ObjectKey]):
    """Triggered by such Secrets and by ServiceAccounts."""

    issuer: TokenIssuer
    root_bundle: Callable[[], bytes]
    _secrets: dict[ObjectKey, str] = field(default_factory=dict)  # token Secrets and their account's name

    def watches(self) -> Watches:
        return {
            SECRETS: self._secret_changed,
            SERVICE_ACCOUNTS: self._account_changed,
            CONFIG_MAPS: self._bundle_changed,
        }

    def _bundle_changed(self, _change: str, new: Object) -> None:
        if ObjectKey.of(new) == CLIENTS:
            for key in self._secrets:
                self.worker.enqueue(key)

    def _secret_changed(self, change: str, new: Object) -> None:
        if new.get("type") != SECRET_TYPE:
            return
        key = ObjectKey.of(new)
        if change == "DELETED":
            self._secrets.pop(key, None)
        else:
            self._secrets[key] = annotations_of(new).get(NAME_ANNOTATION, "")
        self.worker.enqueue(key)

    def _account_changed(self, change: str, new: Object) -> None:
        if change == "MODIFIED":
            return
        account = ObjectKey.of(new)
        for key, name in self._secrets.items():
            if (key.namespace, name) == (account.namespace, account.name):
                self.worker.enqueue(key)

    async def sync(self, key: ObjectKey) -> float | None:
        secret = self.registry.get(SECRETS, key)
        if secret is None:
            await self._forget(key)
            return None
        if secret.get("type") != SECRET_TYPE or is_deleting(secret):
            return None
        name = annotations_of(secret).get(NAME_ANNOTATION, "")
        account = self.registry.get(SERVICE_ACCOUNTS, ObjectKey(key.namespace, name))
        made_for = annotations_of(secret).get(UID_ANNOTATION)
        if account is None or made_for not in {None, "", uid_of(account)}:  # of an earlier account of the same name
            await delete_if_unchanged(self.registry, SECRETS, secret)
            return None
        filled = self._filled(secret, account)
        if filled != secret:
            await self.registry.update(SECRETS, filled)
        return None

    def _filled(self, secret: Object, account: Object) -> Object:
        data = dict(secret.get("data") or {})
        if not data.get("token"):
            token = self.issuer.issue_legacy(account, secret["metadata"]["name"])
            data["token"] = _encoded(token.reveal().encode())
        bundle = self.root_bundle()
        if decode_base64(data.get("ca.crt")) != bundle:
            data["ca.crt"] = _encoded(bundle)
        if not data.get("namespace"):
            data["namespace"] = _encoded(secret["metadata"]["namespace"].encode())
        annotations = {**annotations_of(secret), UID_ANNOTATION: uid_of(account)}
        return {**secret, "metadata": {**secret["metadata"], "annotations": annotations}, "data": data}

    async def _forget(self, key: ObjectKey) -> None:
        for account in self.registry.list(SERVICE_ACCOUNTS, key.namespace):
            kept = [ref for ref in account.get("secrets") or () if ref.get("name") != key.name]
            if len(kept) != len(account.get("secrets") or ()):
                account["secrets"] = kept
                await self.registry.update(SERVICE_ACCOUNTS, account)


def _encoded(value: bytes) -> str:
    return base64.b64encode(value).decode()
