"""Rebuilds what an agent may write from what it sent: names must be equal to the attributes, the rest is left out."""

import orjson

from watchword.api.cluster import validate_cluster_name
from watchword.api.meta import Object, ObjectKey, annotations_of, labels_of, uid_of
from watchword.api.names import (
    CLUSTER_LEASE,
    HUB_ANNOTATIONS,
    KUBE_CLIENT_SIGNER,
    LONGEST_AGENT_TOKEN_SECONDS,
    Annotation,
    Label,
)
from watchword.api.resources import CERTIFICATE_SIGNING_REQUESTS, EVENTS, LEASES, MANAGED_CLUSTERS
from watchword.api.validation import is_dns_subdomain
from watchword.credentials.certificates import requests
from watchword.credentials.certificates.requests import CertificateRequestRefused
from watchword.kube.access_reviews import UserIdentity
from watchword.registration.grpc.cloud_events import RESOURCES, Attribute, CloudEvent, DataType, EventType
from watchword.registration.grpc.server.limits import RequestRefused

_EVENT_FIELDS = (
    "action",
    "deprecatedCount",
    "deprecatedFirstTimestamp",
    "deprecatedLastTimestamp",
    "deprecatedSource",
    "eventTime",
    "note",
    "reason",
    "regarding",
    "related",
    "reportingController",
    "reportingInstance",
    "series",
    "type",
)
_REQUEST_FIELDS = ("request", "signerName", "usages", "expirationSeconds")


def cluster_of(event: CloudEvent) -> str:
    """Return the cluster that an event is for; `RequestRefused` when the attribute names none."""
    return require_cluster_name(event.text(Attribute.CLUSTER_NAME))


def require_cluster_name(name: str) -> str:
    """Return the name; `RequestRefused` when it cannot be that of a cluster."""
    objection = validate_cluster_name(name)
    if objection:
        raise RequestRefused(400, f"the cluster name of the request is refused: {objection}")
    return name


def read_payload(event: CloudEvent, kind: EventType, cluster: str) -> Object:
    """Return the object in an event; `RequestRefused` unless it belongs to the cluster in the attributes."""
    obj = event.json()
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not _are_texts(metadata, "name", "namespace", "uid", "resourceVersion"):
        raise RequestRefused(400, "the object in the event has no metadata, or metadata of another type")
    _require_kind(obj, kind)
    _require_place(obj, kind, cluster)
    claimed = event.text(Attribute.RESOURCE_ID)
    if claimed and uid_of(obj) and claimed != uid_of(obj):
        raise RequestRefused(400, "resourceid and the UID of the object in the event differ")
    return obj


def _are_texts(metadata: Object, *names: str) -> bool:
    maps = all(isinstance(metadata.get(name) or {}, dict) for name in ("labels", "annotations"))
    return maps and all(isinstance(metadata.get(name) or "", str) for name in names)


def _require_kind(obj: Object, kind: EventType) -> None:
    if kind.data_type is DataType.TOKEN_REQUEST:
        expected = ("authentication.k8s.io/v1", "TokenRequest")
    else:
        resource = RESOURCES[kind.data_type]
        expected = (resource.api_version, resource.kind)
    found = (obj.get("apiVersion") or expected[0], obj.get("kind") or expected[1])
    if found != expected:
        raise RequestRefused(400, f"the object in the event is not a {expected[1]} of {expected[0]}")


def _require_place(obj: Object, kind: EventType, cluster: str) -> None:
    key = ObjectKey.of(obj)
    resource = RESOURCES.get(kind.data_type)
    namespace = cluster if resource is None or resource.namespaced else ""
    if key.namespace != namespace or not is_dns_subdomain(key.name):
        raise RequestRefused(403, f"the object in the event is not one of cluster {cluster}: correct clustername")
    expected = {DataType.MANAGED_CLUSTER: cluster, DataType.LEASE: CLUSTER_LEASE}.get(kind.data_type, key.name)
    if key.name != expected:
        raise RequestRefused(403, f"cluster {cluster} may send only the object named {expected}")


def new_cluster(sent: Object) -> Object:
    """Return the ManagedCluster to create: never accepted, without status."""
    _require_not_accepted(sent, accepted=False)
    spec = {name: value for name, value in _spec(sent).items() if name != "hubAcceptsClient"}
    return MANAGED_CLUSTERS.manifest(
        ObjectKey.of(sent), metadata=_notes(sent), spec={**spec, "hubAcceptsClient": False}
    )


def changed_cluster(sent: Object, present: Object) -> Object:
    """Return the ManagedCluster with what an agent may change: labels, annotations, client configurations.

    An agent whose cluster leaves may also take the acceptance back, in the newest version alone: one that has not seen
    the acceptance yet sends `hubAcceptsClient: false`, too.
    """
    spec: Object = present.get("spec") or {}
    leaves = _spec(sent).get("hubAcceptsClient") is False and "resourceVersion" in versions_of(sent)
    _require_not_accepted(sent, accepted=not leaves and spec.get("hubAcceptsClient") is True)
    kept = {name: value for name, value in present["metadata"].items() if name not in ("labels", "annotations")}
    noted = {name: value for name, value in annotations_of(present).items() if name in HUB_ANNOTATIONS}
    configs = {name: value for name, value in _spec(sent).items() if name == "managedClusterClientConfigs"}
    return {
        **present,
        "metadata": {**kept, **_notes(sent), "annotations": noted | annotations_of(sent), **versions_of(sent)},
        "spec": {**spec, **configs, **({"hubAcceptsClient": False} if leaves else {})},
    }


def _require_not_accepted(sent: Object, *, accepted: bool) -> None:
    if (_spec(sent).get("hubAcceptsClient") is True) != accepted:
        raise RequestRefused(403, "an agent does not decide whether its cluster is accepted: leave hubAcceptsClient")


def new_certificate_request(sent: Object, cluster: str, user: UserIdentity) -> Object:
    """Return the request to create, with the authenticated user noted on it; `RequestRefused` for any other form."""
    labels = {name: value for name, value in labels_of(sent).items() if name in (Label.CLUSTER_NAME, Label.ADDON_NAME)}
    if labels.get(Label.CLUSTER_NAME) != cluster:
        raise RequestRefused(403, f"the certificate request is not labelled as one of cluster {cluster}")
    asked = _spec(sent)
    spec = {name: asked[name] for name in _REQUEST_FIELDS if asked.get(name) is not None}
    notes = {
        Annotation.CSR_USER: user.username,
        Annotation.CSR_GROUPS: orjson.dumps(sorted(user.groups)).decode(),
    }
    request = CERTIFICATE_SIGNING_REQUESTS.manifest(
        ObjectKey.of(sent), metadata={"labels": labels, "annotations": notes}, spec=spec
    )
    _require_well_formed(request)
    return request


def _require_well_formed(request: Object) -> None:
    signer = str(request["spec"].get("signerName") or "")
    try:
        if Label.ADDON_NAME not in labels_of(request):
            requests.read_cluster_request(request)
        elif signer == KUBE_CLIENT_SIGNER:
            requests.read_addon_request(request)
        else:
            requests.read_signer_request(request, signer)
    except (CertificateRequestRefused, TypeError, AttributeError) as cause:  # fields of other types
        reason = cause if isinstance(cause, CertificateRequestRefused) else "a field has another type"
        raise RequestRefused(400, f"the certificate request is refused: {reason}") from cause


def renewed_lease(sent: Object, present: Object, cluster: str) -> Object:
    """Return the Lease to write; it keeps its labels, by which the hub's controllers find it."""
    notes = _notes(present)
    labels = {**labels_of(present), Label.CLUSTER_NAME: cluster}
    return LEASES.manifest(
        ObjectKey.of(sent), metadata={**notes, "labels": labels, **versions_of(sent)}, spec=_spec(sent)
    )


def recorded_event(sent: Object) -> Object:
    fields = {name: sent[name] for name in _EVENT_FIELDS if name in sent}
    return EVENTS.manifest(ObjectKey.of(sent), metadata=_notes(sent), **fields)


def event_series(sent: Object) -> Object:
    """Return the change of an Event that was repeated; `RequestRefused` when it contains no series."""
    if not isinstance(sent.get("series"), dict):
        raise RequestRefused(400, "the update of an Event contains no series")
    return {"series": sent["series"]}


def reported_status(sent: Object, kind: EventType) -> Object:
    status = sent.get("status")
    if not isinstance(status, dict):
        raise RequestRefused(400, "the object in the event has no status")
    return RESOURCES[kind.data_type].manifest(ObjectKey.of(sent), metadata=versions_of(sent), status=status)


def token_request(sent: Object) -> Object:
    """Return the TokenRequest to send: for this hub alone, and for a year at most, as agents may request it."""
    asked = _spec(sent)
    seconds = asked.get("expirationSeconds")
    if asked.get("audiences") or asked.get("boundObjectRef"):
        raise RequestRefused(403, "agents may request tokens for this hub alone: name no audience and no object")
    if seconds is not None and (not isinstance(seconds, int) or not 0 < seconds <= LONGEST_AGENT_TOKEN_SECONDS):
        raise RequestRefused(403, f"agents may request tokens of at most {LONGEST_AGENT_TOKEN_SECONDS} seconds")
    spec = {} if seconds is None else {"expirationSeconds": seconds}
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [], **spec}}


def versions_of(sent: Object) -> Object:
    metadata = sent["metadata"]
    return {name: metadata[name] for name in ("uid", "resourceVersion") if metadata.get(name)}


def is_of_another_version(sent: Object, present: Object) -> bool:
    """Whether an object was read in another version than the present one; not when it does not say."""
    return any(present["metadata"].get(name) != value for name, value in versions_of(sent).items())


def _notes(sent: Object) -> Object:
    metadata = sent["metadata"]
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}


def _spec(sent: Object) -> Object:
    spec = sent.get("spec") or {}
    if not isinstance(spec, dict):
        raise RequestRefused(400, "the spec of the object in the event is not an object")
    return spec
