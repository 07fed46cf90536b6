"""Describes one credential without showing it."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from watchword.admin.accept import HubAdmin
from watchword.admin.errors import NotFoundOnHub, OperationRefused
from watchword.admin.lookup import get_named
from watchword.admin.revoke.revocation import parse_key
from watchword.admin.service_accounts import ServiceAccountAdmin
from watchword.api.addon import Addon
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import HUB_KUBECONFIG_SECRET, KUBE_CLIENT_SIGNER, Label
from watchword.api.pull_secrets import DOCKERCFG_KEY
from watchword.api.resources import MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS
from watchword.api.time import rfc3339
from watchword.credentials.credential_secret import decode_data
from watchword.credentials.lifecycle import BoundToken, read_bound_token
from watchword.health.facts import HubFacts, sort_by_creation
from watchword.health.formatting import format_key
from watchword.health.inventory import build_inventory, issued_certificates, read_issued_certificate
from watchword.health.inventory_rows import CredentialRow
from watchword.kube.client import Client
from watchword.pki.certificates import Certificate, split_bundle
from watchword.pki.errors import PkiError
from watchword.pullsecrets.pull_secret import find_dockercfg_token
from watchword.runtime.clock import Clock


class CredentialInspector(Struct, frozen=True):
    """Reads what the hub knows about a credential; each method returns facts by name, in the order of reading."""

    client: Client
    clock: Clock

    async def cluster(self, name: str) -> Object:
        found = await get_named(self.client, MANAGED_CLUSTERS, ObjectKey.cluster(name))
        requests = sort_by_creation(await HubAdmin(self.client, self.clock).csrs_of(name))
        row = self._row(HubFacts(clusters=[found], requests=requests))
        return {
            **_of_row(row, f"cluster {name} has no credential yet"),
            **_of_chain(issued_certificates(found, requests)),
            "stored": f"Secret {HUB_KUBECONFIG_SECRET} in the agent's namespace on {name}",
            "usedBy": f"the agent of {name}: registration, lease, add-ons, work",
        }

    async def addon(self, name: str) -> Object:
        key = parse_key(name, "CLUSTER/NAME")
        found = await get_named(self.client, MANAGED_CLUSTER_ADDONS, key)
        addon = Addon.read(found)
        if addon.kube_client is None:
            raise OperationRefused(f"add-on {key.name} on cluster {key.namespace} has no credential for the hub")
        requests = sort_by_creation(await HubAdmin(self.client, self.clock).csrs_of(key.namespace))
        issued = [read_issued_certificate(csr) for csr in requests if is_for_hub(csr, key.name)]
        row = self._row(HubFacts(addons=[found]))
        place = addon.namespace_on_cluster()
        return {
            **_of_row(row, f"add-on {name} has no credential yet"),
            **_of_chain([each for each in issued if each is not None][-1:]),
            "stored": f"Secret {addon.kube_client.secret_name(addon.name)} in {place} on {key.namespace}",
            "usedBy": f"the agent of add-on {key.name} on {key.namespace}",
        }

    async def account(self, name: str) -> Object:
        key = parse_key(name, "NAMESPACE/NAME")
        account = await ServiceAccountAdmin(self.client).get(key)
        secret = await self.client.find(SECRETS, key)
        if secret is None:
            raise NotFoundOnHub(
                f"account {key} has no token of its own: `watchword serviceaccount show {key.name} -n {key.namespace}`"
            )
        facts = describe_secret(secret)
        renewal = (account.get("status") or {}).get("nextRenewalTimestamp") or ""
        return {"kind": "account token", "holder": f"account {key.name} on {key.namespace}", **facts} | {
            "nextRenewal": renewal,
            "usedBy": "programs that read the Secret, or run `watchword serviceaccount exec-credential`",
        }

    async def secret(self, name: str) -> Object:
        """Describe what a Secret of this cluster holds, hub or not: a client certificate, a token, a pull secret."""
        key = parse_key(name, "NAMESPACE/NAME")
        found = await self.client.find(SECRETS, key)
        if found is None:
            raise NotFoundOnHub(f"there is no Secret {key}: `kubectl -n {key.namespace} get secrets` lists all")
        return {"kind": f"Secret of type {found.get('type') or 'Opaque'}", **describe_secret(found)}

    def _row(self, facts: HubFacts) -> CredentialRow | None:
        """Return the row that every view shows of the one member in these facts."""
        return next(iter(build_inventory(facts, now=self.clock.now()).credentials), None)


def is_for_hub(csr: Object, addon: str) -> bool:
    """Whether a request is for an add-on's credential for the hub: it may have certificates of other signers, too."""
    return labels_of(csr).get(Label.ADDON_NAME) == addon and csr["spec"].get("signerName") == KUBE_CLIENT_SIGNER


def _of_row(row: CredentialRow | None, missing: str) -> Object:
    if row is None:
        raise NotFoundOnHub(f"{missing}: `watchword status` shows how far it came")
    return {
        "kind": row.kind,
        "holder": row.holder,
        "subject": row.subject,
        "issued": _instant(row.validity.issued),
        "expires": _instant(row.validity.expires),
        "nextRenewal": _instant(row.next_rotation),
        "health": row.health.label + (f": {row.note}" if row.note else ""),
        "consequence": row.consequence,
    }


def _of_chain(chain: Sequence[Certificate]) -> Object:
    if not chain:
        return {}
    own = chain[0]
    return {
        "subject": own.common_name,
        "groups": list(own.organisations),
        "issuer": own.issuer,
        "chain": [f"{each.common_name or '-'}, issued by {each.issuer}" for each in chain],
        "serial": f"{own.serial:x}",
        "key": format_key(own.key),
    }


def _of_token(token: BoundToken) -> Object:
    return {
        "subject": token.subject,
        "issuer": token.issuer,
        "audiences": list(token.audiences),
        "issued": _instant(token.issued_at),
        "expires": _instant(token.expires_at),
        "credentialId": token.credential_id,
    }


def describe_secret(secret: Object) -> Object:
    """Describe the credential in a Secret; `OperationRefused` when the Secret holds none that is known."""
    data, key = decode_data(secret), ObjectKey.of(secret)
    where: Object = {"stored": f"Secret {key}"}
    if data.get("tls.crt"):
        try:
            chain = split_bundle(data["tls.crt"])
        except PkiError as cause:
            raise OperationRefused(f"tls.crt of Secret {key} cannot be read: {cause}") from cause
        period = {"issued": _instant(chain[0].not_before), "expires": _instant(chain[0].not_after)}
        return {**_of_chain(chain), **period, **where}
    pulled = find_dockercfg_token(data[DOCKERCFG_KEY]) if data.get(DOCKERCFG_KEY) else None
    text = pulled.reveal() if pulled is not None else data.get("token", b"").decode(errors="replace")
    token = read_bound_token(text) if text else None
    if token is None:
        raise OperationRefused(f"Secret {key} holds no client certificate and no token: name another")
    account = annotations_of(secret).get("kubernetes.io/service-account.name")
    return {**_of_token(token), **where, **({"usedBy": f"pods of ServiceAccount {account}"} if account else {})}


def _instant(instant: datetime | None) -> str:
    return "" if instant is None else rfc3339(instant)
