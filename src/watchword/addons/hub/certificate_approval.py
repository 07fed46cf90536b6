"""Approves the certificates that add-ons may have, and no others."""

from datetime import timedelta

from msgspec import Struct

from watchword.addons.catalog import AddonCatalog
from watchword.addons.definition import AddonInstance, DefinitionLookup, Signer
from watchword.addons.driver import RequestsAddonCertificate
from watchword.api.addon import Addon, AddonSubject
from watchword.api.cluster import Cluster, is_accepted
from watchword.api.meta import Object, ObjectKey, labels_of, mapping_at
from watchword.api.names import KUBE_CLIENT_SIGNER, Label
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, MANAGED_CLUSTER_ADDONS, MANAGED_CLUSTERS, SECRETS
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.issued_certificate import read_authority, sign_request, with_certificate
from watchword.credentials.certificates.requests import (
    APPROVED,
    APPROVED_REASON,
    CertificateRequestRefused,
    is_approved,
    is_pending,
    with_decision,
)
from watchword.kube.client import Client
from watchword.pki.authority import Authority
from watchword.pki.errors import CertificateRefused, PkiError
from watchword.runtime.clock import Clock
from watchword.runtime.event_recorder import EventRecorder
from watchword.runtime.reconcile import Done, Outcome, Reader, RetryAfter

INDEX = "addon-requests"
ADDON_SIGNING = "addon-signing"  # the purpose of a key that signs certificates for add-ons
RESERVED_SIGNER_DOMAINS = ("kubernetes.io", "k8s.io", "open-cluster-management.io", "watchword.dev")
RECHECK_INTERVAL = timedelta(minutes=5)  # an administrator has to repair a missing or damaged Secret


class RequestFacts(Struct, frozen=True):
    """Everything that a decision about a request depends on besides the request."""

    addon: Addon | None
    cluster: Object | None
    signer: Signer | None = None


class AddonRequestReconciler(Struct, frozen=True):
    """Reconciles CertificateSigningRequest of add-ons; triggered by it and by its ManagedClusterAddOn."""

    reader: Reader
    client: Client
    events: EventRecorder
    clock: Clock
    definitions: DefinitionLookup
    catalog: AddonCatalog
    for_hub: bool = True  # False: only requests to signers of the add-on's own are ours

    async def reconcile(self, key: ObjectKey) -> Outcome:
        csr = self.reader.get(CERTIFICATE_SIGNING_REQUESTS, key)
        if csr is None or not is_open_request(csr):
            return Done()
        facts = find_request_facts(self.reader, self.definitions, csr)
        if is_pending(csr):
            return await self._approve(csr, facts)
        return await self._sign(csr, facts)

    async def _approve(self, csr: Object, facts: RequestFacts) -> Outcome:
        is_ours = self.for_hub if mapping_at(csr, "spec").get("signerName") == KUBE_CLIENT_SIGNER else facts.signer
        if not is_ours:
            return Done()
        try:
            validate_addon_request(csr, facts, self.catalog)
        except CertificateRequestRefused as objection:
            self.events.refusal(csr, "CSRRefused", str(objection))
            return Done()
        message = "the agent of the add-on's cluster asks for the add-on's own certificate"
        approval = with_decision(csr, APPROVED, APPROVED_REASON, message, now=self.clock.now())
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, approval, subresource="approval")
        self.events.normal(csr, APPROVED_REASON, message)
        return Done()

    async def _sign(self, csr: Object, facts: RequestFacts) -> Outcome:
        """Sign an approved request after judging it once more: an approval by hand is not a subject.

        The key is read when it is needed, and not kept.
        """
        signer = facts.signer
        if signer is None or signer.authority is None:
            return Done()
        try:
            validate_addon_request(csr, facts, self.catalog)
            authority = read_signing_authority(await self.client.find(SECRETS, signer.authority))
            asked = requests.read_signer_request(csr, signer.name).asked
            certificate = sign_request(csr, asked, authority, longest=signer.lifetime, now=self.clock.now())
        except CertificateRequestRefused as objection:
            self.events.refusal(csr, "SigningRefused", str(objection))
            return Done()
        except PkiError as error:
            self.events.warning(csr, "SigningAuthorityUnusable", f"Secret {signer.authority}: {error}")
            return RetryAfter(RECHECK_INTERVAL)
        signed = with_certificate(csr, certificate)
        await self.client.update(CERTIFICATE_SIGNING_REQUESTS, signed, subresource="status")
        return Done()


def index_open_requests(csr: Object) -> list[str]:
    """Return the add-on of a request that waits for a decision or a signature, as `cluster/name`: the index `INDEX`."""
    labels = labels_of(csr)
    cluster, name = labels.get(Label.CLUSTER_NAME), labels.get(Label.ADDON_NAME)
    is_open = not (csr.get("status") or {}).get("certificate")
    return [f"{cluster}/{name}"] if is_open and cluster and name else []


def pending_requests(reader: Reader, addon: Object) -> list[ObjectKey]:
    return [ObjectKey.of(csr) for csr in reader.by_index(CERTIFICATE_SIGNING_REQUESTS, INDEX, str(ObjectKey.of(addon)))]


def is_open_request(csr: Object) -> bool:
    """Whether a request of an add-on waits for a decision, or is approved and waits for a signature."""
    is_signed = mapping_at(csr, "status").get("certificate")
    return Label.ADDON_NAME in labels_of(csr) and (is_pending(csr) or (is_approved(csr) and not is_signed))


def find_request_facts(reader: Reader, definitions: DefinitionLookup, csr: Object) -> RequestFacts:
    """Look up the add-on that the request claims; its labels are hints that are compared later."""
    labels = labels_of(csr)
    cluster, name = labels.get(Label.CLUSTER_NAME, ""), labels.get(Label.ADDON_NAME, "")
    found = reader.get(MANAGED_CLUSTER_ADDONS, ObjectKey(cluster, name)) if cluster and name else None
    definition = definitions(found) if found is not None else None
    asked = str((csr.get("spec") or {}).get("signerName") or "")
    return RequestFacts(
        Addon.read(found) if found is not None else None,
        reader.get(MANAGED_CLUSTERS, ObjectKey.cluster(cluster)) if cluster else None,
        definition.signer(asked) if definition is not None else None,
    )


def validate_addon_request(csr: Object, facts: RequestFacts, catalog: AddonCatalog) -> None:
    """Rebuild what the add-on may request and compare; raise `CertificateRequestRefused` for anything else."""
    if facts.addon is None or facts.cluster is None:
        raise CertificateRequestRefused("there is no such add-on on that cluster")
    if not is_accepted(facts.cluster):
        raise CertificateRequestRefused("the cluster is not accepted by this hub")
    if not requests.is_agent_of(facts.addon.cluster, csr):
        raise CertificateRequestRefused("the requester is not an agent of the cluster in the label")
    if facts.addon.deleting and not facts.addon.finishing:
        raise CertificateRequestRefused("the add-on is being removed")
    if mapping_at(csr, "spec").get("signerName") == KUBE_CLIENT_SIGNER:
        requests.read_addon_request(csr)
        driver = catalog.driver_of(facts.addon)
        if facts.addon.kube_client is None or not isinstance(driver, RequestsAddonCertificate):
            raise CertificateRequestRefused("the add-on is not registered for a certificate of this hub")
    elif facts.signer is None:
        raise CertificateRequestRefused("the add-on has no such signer")
    else:
        _validate_signer_request(csr, facts.signer, AddonInstance(facts.addon, Cluster.read(facts.cluster)))


def _validate_signer_request(csr: Object, signer: Signer, instance: AddonInstance) -> None:
    if is_reserved_signer(signer.name):
        raise CertificateRequestRefused(
            "signers of this domain issue the certificates of nodes, clusters and users: an add-on names its own"
        )
    if signer.objection:
        raise CertificateRequestRefused(signer.objection)
    request = requests.read_signer_request(csr, signer.name)
    expected = signer.subject_for(instance)
    if expected != Signer(signer.name).subject_for(instance) and is_reserved_subject(expected):
        raise CertificateRequestRefused("user and groups that begin with system: are no subject for an add-on's signer")
    requested = AddonSubject(request.asked.common_name, request.asked.organisations, request.asked.organisational_units)
    if normalized_subject(requested) != normalized_subject(expected):
        raise CertificateRequestRefused("the subject is not the one that the add-on declares for this signer")


def is_reserved_signer(signer: str) -> bool:
    """Whether a signer is one of Kubernetes, Open Cluster Management or Watchword, and never an add-on's."""
    domain = signer.partition("/")[0].lower()
    return any(domain == own or domain.endswith(f".{own}") for own in RESERVED_SIGNER_DOMAINS)


def is_reserved_subject(subject: AddonSubject) -> bool:
    """Whether a subject is one that an API server, or the hub's gRPC server, takes for a part of the system."""
    return any(name.strip().lower().startswith("system:") for name in (subject.user, *subject.groups))


def normalized_subject(subject: AddonSubject) -> AddonSubject:
    return AddonSubject(subject.user, tuple(sorted(subject.groups)), tuple(sorted(subject.organization_units)))


def read_signing_authority(secret: Object | None) -> Authority:
    """Return the authority of a Secret that is labelled for this purpose; raise `PkiError` for any other Secret.

    The hub can read other keys in the same namespace, and the author of a template chooses the Secret's name.
    """
    if secret is not None and labels_of(secret).get(Label.KEY_PURPOSE) != ADDON_SIGNING:
        raise CertificateRefused(f"it has no label {Label.KEY_PURPOSE}={ADDON_SIGNING}, so add-ons may not use its key")
    return read_authority(secret)
