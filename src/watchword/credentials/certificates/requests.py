"""Builds CertificateSigningRequests, reads their decisions, and validates those of agents."""

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import orjson
from msgspec import Struct, field

from watchword.api import names
from watchword.api.bootstrap import BOOTSTRAPPERS_GROUP, USER_PREFIX
from watchword.api.cluster import validate_cluster_name
from watchword.api.conditions import conditions_of
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of
from watchword.api.names import KUBE_CLIENT_SIGNER
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS
from watchword.api.time import parse_rfc3339, rfc3339
from watchword.pki.csr import ParsedCsr, build_csr, parse_csr
from watchword.pki.errors import PkiError
from watchword.pki.keys import KeyType, PrivateKey, validate_key_strength
from watchword.pki.subjects import AlternativeNames, CertificateSubject, Usage


class CertificateRequestRefused(Exception):
    """The request is one that the hub never approves; the message contains the reason."""


class CertificateSpec(Struct, frozen=True):
    """Which certificate to request; `labels` help approvers to find the request."""

    subject: CertificateSubject
    signer: str = KUBE_CLIENT_SIGNER
    lifetime: timedelta | None = None  # None: the signer decides
    name: str = ""  # empty: derived from key and spec
    name_prefix: str = "watchword-"
    usages: tuple[Usage, ...] = ()  # empty: those that the type of the key needs
    names: AlternativeNames = field(default_factory=AlternativeNames)
    labels: Mapping[str, str] = field(default_factory=dict)


def certificate_request_manifest(certificate_spec: CertificateSpec, key: PrivateKey) -> Object:
    """Return the CertificateSigningRequest; the same spec and key always give the same name."""
    # Only RSA keys encipher other keys.
    encipherment = (Usage.KEY_ENCIPHERMENT,) if key.public.type == KeyType.RSA else ()
    usages = certificate_spec.usages or (Usage.DIGITAL_SIGNATURE, *encipherment, Usage.CLIENT_AUTH)
    spec: Object = {
        "request": base64.b64encode(build_csr(key, certificate_spec.subject, certificate_spec.names)).decode(),
        "signerName": certificate_spec.signer,
        "usages": [str(usage) for usage in usages],
    }
    if certificate_spec.lifetime is not None:
        spec["expirationSeconds"] = int(certificate_spec.lifetime.total_seconds())
    return CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.cluster(certificate_spec.name or choose_request_name(certificate_spec, key)),
        metadata={"labels": dict(certificate_spec.labels)} if certificate_spec.labels else {},
        spec=spec,
    )


def choose_request_name(certificate_spec: CertificateSpec, key: PrivateKey) -> str:
    parts = [
        key.public.thumbprint,
        certificate_spec.signer,
        certificate_spec.subject.common_name,
        *sorted(certificate_spec.subject.organisations),
        str(certificate_spec.lifetime),
    ]
    return certificate_spec.name_prefix + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def is_same_request(present: Object, ours: Object) -> bool:
    """Whether a stored request has the same content and key; the server adds the rest."""
    theirs, wanted = present.get("spec") or {}, ours["spec"]
    if any(theirs.get(field) != wanted.get(field) for field in ("signerName", "usages", "expirationSeconds")):
        return False
    try:
        asked = parse_csr(base64.b64decode(str(theirs.get("request") or ""), validate=True))
        mine = parse_csr(base64.b64decode(wanted["request"]))
    except (PkiError, ValueError):
        return False
    return (asked.key, asked.subject) == (mine.key, mine.subject)


APPROVED, DENIED, FAILED = "Approved", "Denied", "Failed"
APPROVED_REASON = "AutoApprovedByHubCSRApprovingController"
"""The reason with which the hub's controllers approve; OCM uses the same."""


ISSUED = "aXNzdWVk"
"""What stands for a certificate where it does not matter which: base64, as everything in that field."""


class RequestDecision(Struct, frozen=True):
    """What was decided about a request; a denial or failure outweighs an approval."""

    verdict: str = ""  # Approved, Denied or Failed; empty while nothing is decided
    reason: str = ""
    message: str = ""
    decided_at: datetime | None = None  # by the API server's clock, if recorded
    certificate: str = ""  # base64 as in the status; empty until it is issued


def read_decision(csr: Object) -> RequestDecision:
    certificate = str((csr.get("status") or {}).get("certificate") or "")
    rows = {row.get("type"): row for row in conditions_of(csr) if row.get("status", "True") == "True"}
    row = next((rows[verdict] for verdict in (DENIED, FAILED, APPROVED) if verdict in rows), None)
    if row is None:
        return RequestDecision(certificate=certificate)
    since = parse_rfc3339(str(row.get("lastTransitionTime") or row.get("lastUpdateTime") or ""))
    reason, message = str(row.get("reason") or ""), str(row.get("message") or "")
    return RequestDecision(str(row["type"]), reason, message, since, certificate)


def without_issued_certificate(csr: Object) -> Object:
    """Return a request whose certificate, once issued, is only known to exist: a `Projection` for a hub's cache.

    The certificate is half of the request, and a hub that approves and signs never reads it.
    """
    status: Object = csr.get("status") or {}
    return {**csr, "status": {**status, "certificate": ISSUED}} if status.get("certificate") else csr


def is_pending(csr: Object) -> bool:
    return not conditions_of(csr)


def is_approved_by_hub(csr: Object) -> bool:
    """Whether a hub's controllers approved the request: no other decision can follow, and nothing is left to do."""
    return read_decision(csr).reason == APPROVED_REASON


def is_approved(csr: Object) -> bool:
    return read_decision(csr).verdict == APPROVED


def with_decision(csr: Object, verdict: str, reason: str, message: str, *, now: datetime) -> Object:
    row = {"type": verdict, "status": "True", "reason": reason, "message": message, "lastUpdateTime": rfc3339(now)}
    status: Object = csr.get("status") or {}
    return {**csr, "status": {**status, "conditions": [*(status.get("conditions") or []), row]}}


GRPC_SERVER_USER = names.service_account_user(names.HUB_NAMESPACE, names.GRPC_SERVER_SERVICE_ACCOUNT)


class Requester(Struct, frozen=True):
    """An authenticated user."""

    user: str
    groups: frozenset[str] = frozenset()
    is_direct: bool = True  # authenticated by the API server itself


def requester_of(csr: Object) -> Requester:
    """Return who requested a certificate.

    The annotations count only on requests of the gRPC server, which overwrites them with what it authenticated.
    """
    spec: Mapping[str, Any] = csr.get("spec") or {}
    user, groups = str(spec.get("username") or ""), frozenset(spec.get("groups") or ())
    if user != GRPC_SERVER_USER:
        return Requester(user, groups)
    noted = annotations_of(csr)
    user, known = noted.get(names.Annotation.CSR_USER, ""), noted.get(names.Annotation.CSR_GROUPS)
    if known is None and user.startswith(USER_PREFIX):  # OCM's server notes no groups: a bootstrap token has this one
        return Requester(user, frozenset({BOOTSTRAPPERS_GROUP}), False)
    return Requester(user, _read_groups(known or ""), False)


def _read_groups(text: str) -> frozenset[str]:
    try:
        groups = orjson.loads(text) if text else []
    except orjson.JSONDecodeError:
        return frozenset()
    return frozenset(group for group in groups if isinstance(group, str)) if isinstance(groups, list) else frozenset()


ALLOWED_USAGES = frozenset({"digital signature", "key encipherment", "client auth"})
SUBJECT_ALTERNATIVE_NAME = "2.5.29.17"
_AGENT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


class ClusterRequest(Struct, frozen=True):
    """A well-formed request for a cluster's certificate. Whether it is approved is decided elsewhere."""

    cluster: str
    agent: str
    requester: str  # authenticated by the API server, or by the gRPC server
    requester_groups: frozenset[str]  # likewise
    key_thumbprint: str
    signer: str = names.KUBE_CLIENT_SIGNER

    @property
    def is_renewal(self) -> bool:
        return self.requester == names.agent_user(self.cluster, self.agent)


class AddonRequest(Struct, frozen=True):
    """A well-formed request for an add-on's certificate."""

    cluster: str
    addon: str
    agent: str
    requester: str
    key_thumbprint: str


class SignerRequest(Struct, frozen=True):
    """A well-formed request for a certificate by a signer of an add-on's own."""

    cluster: str
    addon: str
    asked: ParsedCsr


def read_cluster_request(csr: Object) -> ClusterRequest:
    """Rebuild what an agent of the labelled cluster would request and compare; raise `CertificateRequestRefused`."""
    cluster = _labelled_cluster(csr)
    spec: Mapping[str, Any] = csr.get("spec") or {}
    signer = names.GRPC_SIGNER if spec.get("signerName") == names.GRPC_SIGNER else names.KUBE_CLIENT_SIGNER
    asked = _read_identity(spec, signer)
    agent = _last_part(asked.common_name, names.agent_user(cluster, ""))
    _require_subject(
        asked, ({names.cluster_group(cluster)}, {names.cluster_group(cluster), names.MANAGED_CLUSTERS_GROUP})
    )
    if asked.names or asked.extensions:
        raise CertificateRequestRefused("the request asks for alternative names or extensions, which no agent needs")
    who = requester_of(csr)
    return ClusterRequest(cluster, agent, who.user, who.groups, asked.key.thumbprint, signer)


def read_addon_request(csr: Object) -> AddonRequest:
    cluster, addon = _labelled_cluster(csr), labels_of(csr).get(names.Label.ADDON_NAME, "")
    spec: Mapping[str, Any] = csr.get("spec") or {}
    asked = _read_identity(spec)
    agent = _last_part(asked.common_name, names.addon_user(cluster, addon, ""))
    own = {names.addon_group(cluster, addon)}
    fleet = own | {names.addon_fleet_group(addon)}
    _require_subject(asked, (own, fleet, fleet | {"system:authenticated"}))
    _require_addon_names(asked, addon)
    return AddonRequest(cluster, addon, agent, requester_of(csr).user, asked.key.thumbprint)


def read_signer_request(csr: Object, signer: str) -> SignerRequest:
    """Read a request to an add-on's own signer; raise `CertificateRequestRefused`. Callers check its subject."""
    cluster, addon = _labelled_cluster(csr), labels_of(csr).get(names.Label.ADDON_NAME, "")
    spec: Mapping[str, Any] = csr.get("spec") or {}
    asked = _read_identity(spec, signer)
    _require_addon_names(asked, addon)
    if asked.other_attributes or len(set(asked.organisations)) != len(asked.organisations):
        raise CertificateRequestRefused(
            "the subject has parts besides common name, organisations and organisational units"
        )
    return SignerRequest(cluster, addon, asked)


def is_agent_of(cluster: str, csr: Object) -> bool:
    """Whether the requester was authenticated as an agent of this very cluster.

    The user name is rebuilt, and not compared by its beginning: cluster c1 is not c10.
    """
    who = requester_of(csr)
    user, groups = who.user, who.groups
    agent = user.removeprefix(names.agent_user(cluster, ""))
    by_certificate = user == names.agent_user(cluster, agent) and _AGENT_NAME.fullmatch(agent) is not None
    if by_certificate and names.cluster_group(cluster) in groups:
        return True
    # As clouds authenticate it: with a name of Open Cluster Management, or with one of ours.
    if user == names.cloud_agent_user(cluster):
        return not groups.isdisjoint({names.cluster_group(cluster), names.cluster_group_plain(cluster)})
    return user == cluster and names.cluster_group_plain(cluster) in groups


def _labelled_cluster(csr: Object) -> str:
    cluster = labels_of(csr).get(names.Label.CLUSTER_NAME, "")
    objection = validate_cluster_name(cluster)
    if objection:
        raise CertificateRequestRefused(f"the label {names.Label.CLUSTER_NAME} does not name a cluster: {objection}")
    return cluster


def _read_identity(spec: Mapping[str, Any], signer: str = names.KUBE_CLIENT_SIGNER) -> ParsedCsr:
    if spec.get("signerName") != signer:
        raise CertificateRequestRefused(f"the request is for another signer than {signer}")
    usages = spec.get("usages") or []
    if "client auth" not in usages or not set(usages) <= ALLOWED_USAGES:
        raise CertificateRequestRefused(f"the request asks for other usages than {', '.join(sorted(ALLOWED_USAGES))}")
    try:
        asked = parse_csr(base64.b64decode(spec.get("request") or "", validate=True))
    except (PkiError, binascii.Error, ValueError) as cause:
        raise CertificateRequestRefused(f"the request cannot be read: {cause}") from cause
    if not asked.signature_valid:
        raise CertificateRequestRefused("the request is not signed by the key it asks a certificate for")
    weakness = validate_key_strength(asked.key)
    if weakness:
        raise CertificateRequestRefused(weakness)
    return asked


def _last_part(common_name: str, expected_start: str) -> str:
    agent = common_name.removeprefix(expected_start)
    if common_name != expected_start + agent or not _AGENT_NAME.fullmatch(agent):
        raise CertificateRequestRefused("the common name is not that of an agent of the cluster in the label")
    return agent


def _require_addon_names(asked: ParsedCsr, addon: str) -> None:
    own = AlternativeNames(dns=(f"{addon}.addon.open-cluster-management.io",))
    if asked.names not in (AlternativeNames(), own) or not set(asked.extensions) <= {SUBJECT_ALTERNATIVE_NAME}:
        raise CertificateRequestRefused(
            "the request asks for alternative names or extensions that are not the add-on's own"
        )


def _require_subject(asked: ParsedCsr, allowed: tuple[set[str], ...]) -> None:
    unique = set(asked.organisations)
    if len(unique) != len(asked.organisations) or unique not in allowed:
        raise CertificateRequestRefused("the organisations are not exactly those of the cluster in the label")
    if asked.organisational_units or asked.other_attributes:
        raise CertificateRequestRefused("the subject has parts besides common name and organisations")
