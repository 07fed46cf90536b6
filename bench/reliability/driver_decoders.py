"""Decoders of the drivers: events and files of gRPC, the roles of AWS, tokens of ServiceAccounts."""

from __future__ import annotations

from functools import partial
from typing import Any

import orjson

from bench.reliability.decoder import Decoder, text_of
from watchword.kube.access_reviews import UserIdentity
from watchword.kube.errors import ConfigError, error_from_status
from watchword.registration.aws_irsa.documents import EksClusterArn, parse_oidc_provider
from watchword.registration.aws_irsa.errors import AwsError
from watchword.registration.aws_irsa.role_mapping import with_entry, without_role
from watchword.registration.grpc.client.object_events import ObjectCodec, WorkCodec
from watchword.registration.grpc.cloud_events import (
    Action,
    Attribute,
    AttributeValue,
    CloudEvent,
    DataType,
    EventType,
    SubResource,
    Subscription,
    decode_event,
    decode_publish_request,
    decode_subscription,
    encode_event,
    encode_publish_request,
    encode_subscription,
)
from watchword.registration.grpc.config import parse_config
from watchword.registration.grpc.errors import GrpcDriverError, decode_status, encode_status
from watchword.registration.grpc.server import publishing
from watchword.registration.grpc.server.hub_objects import read_resource_versions

CLUSTER = "edge-1"
USER = UserIdentity("system:open-cluster-management:edge-1:agent", groups=("system:authenticated",))
ROLE = "arn:aws:iam::123456789012:role/ocm-hub-0123"
MAP_ROLES = (
    (
        b"- rolearn: arn:aws:iam::123456789012:role/node\n  username: system:node:{{EC2PrivateDNSName}}\n"
        b"  groups:\n  - system:nodes\n# edge\n"
        b"- groups: [a, b]\n  rolearn: arn:aws:iam::123456789012:role/ocm-hub-0123\n"
    ),
    b'[{"rolearn": "arn:aws:iam::123456789012:role/ocm-hub-0123", "groups": ["a"]}]',
)
ARNS = (
    b"arn:aws-us-gov:eks:us-gov-west-1:123456789012:cluster/a_b-1",
    b"arn:aws:eks:eu-central-1:123456789012:cluster/x",
)
CONFIG = b"url: hub:8443\ncaData: QQ==\ntoken: abc\nserverHealthinessTimeout: 20s\nkeepAliveConfig: {enabled: true}\n"
REFUSAL = encode_status(error_from_status(409, {"reason": "Conflict", "message": "x", "details": {"name": "a"}}))


def _seed(data_type: DataType, **fields: Any) -> bytes:
    namespace = {} if data_type in (DataType.MANAGED_CLUSTER, DataType.CERTIFICATE_REQUEST) else {"namespace": CLUSTER}
    names = {DataType.LEASE: "managed-cluster-lease"}
    metadata = {"name": names.get(data_type, CLUSTER), "uid": "u-1", "resourceVersion": "7", **namespace}
    labels = {"open-cluster-management.io/cluster-name": CLUSTER}
    return orjson.dumps({"metadata": {**metadata, "labels": labels}, **fields})


_REQUEST = {"request": "QQ==", "signerName": "kubernetes.io/kube-apiserver-client", "usages": ["client auth"]}
_STATUS = {"conditions": [{"type": "a", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}
SENT = {
    DataType.MANAGED_CLUSTER: _seed(DataType.MANAGED_CLUSTER, spec={"hubAcceptsClient": False}, status=_STATUS),
    DataType.ADDON: _seed(DataType.ADDON, spec={}, status=_STATUS),
    DataType.CERTIFICATE_REQUEST: _seed(DataType.CERTIFICATE_REQUEST, spec=_REQUEST),
    DataType.LEASE: _seed(DataType.LEASE, spec={"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.000000Z"}),
    DataType.EVENT: _seed(DataType.EVENT, note="x", series={"count": 2}, regarding={"kind": "ManagedCluster"}),
    DataType.TOKEN_REQUEST: _seed(DataType.TOKEN_REQUEST, spec={"expirationSeconds": 3600}),
}


def _event(data_type: DataType, action: Action, data: bytes) -> CloudEvent:
    extensions: dict[str, AttributeValue] = {
        Attribute.CLUSTER_NAME: CLUSTER,
        Attribute.RESOURCE_ID: "u-1",
        Attribute.RESOURCE_VERSION: 7,
    }
    type_ = EventType(data_type, SubResource.SPEC, action)
    return CloudEvent(id="1", source="edge-1-agent", type=str(type_), extensions=extensions, data=data)


EVENTS = tuple(_event(data_type, Action.UPDATE, data) for data_type, data in SENT.items())
WORK = orjson.dumps({"manifests": [{"kind": "ConfigMap"}], "deleteOption": {}, "executer": {"subject": {}}})
METADATA = b'{"name":"work","uid":"u-1","generation":3,"finalizers":["a"],"labels":{"x":"y"}}'
RESYNC = b'{"resourceVersions":[{"resourceID":"u-1","resourceVersion":7},{"resourceID":"u-2","resourceVersion":"8"}]}'


def _publish(data: bytes) -> object:
    event = decode_publish_request(data)
    kind = EventType.parse(event.type)
    return _write(event, kind, publishing.require_cluster_name(event.text(Attribute.CLUSTER_NAME)))


def _receive(data: bytes) -> object:
    event = decode_event(data)
    return ObjectCodec(EventType.parse(event.type).data_type).decode(event)


def _hub_object(data_type: DataType, data: bytes) -> object:
    event = _event(data_type, Action.UPDATE, data)
    return _write(event, EventType.parse(event.type), CLUSTER)


def _write(event: CloudEvent, kind: EventType, cluster: str) -> object:
    """Build what the server would write of an event."""
    sent = publishing.read_payload(event, kind, cluster)
    match kind.data_type:
        case DataType.CERTIFICATE_REQUEST:
            return publishing.new_certificate_request(sent, cluster, USER)
        case DataType.MANAGED_CLUSTER:
            return publishing.new_cluster(sent), publishing.reported_status(sent, kind)
        case DataType.LEASE:
            return publishing.renewed_lease(sent, {"metadata": {}}, cluster)
        case DataType.EVENT:
            return publishing.recorded_event(sent), publishing.event_series(sent)
        case DataType.TOKEN_REQUEST:
            return publishing.token_request(sent)
        case _:
            return publishing.reported_status(sent, kind)


def _agent_object(data_type: DataType, data: bytes) -> object:
    return ObjectCodec(data_type).decode(_event(data_type, Action.UPDATE, data))


def _work(data: bytes) -> object:
    """Read a bundle whose metadata, before the first line feed, and whose content are damaged together."""
    metadata, _, content = data.partition(b"\n")
    event = _event(DataType.MANIFEST_BUNDLE, Action.CREATE, content)
    return WorkCodec().decode(
        CloudEvent(
            id=event.id,
            source=event.source,
            type=event.type,
            extensions={**event.extensions, Attribute.METADATA: text_of(metadata)},
            data=content,
        )
    )


def _resync(data: bytes) -> object:
    return read_resource_versions(_event(DataType.ADDON, Action.RESYNC_REQUEST, data))


def _map_roles(data: bytes) -> object:
    text = text_of(data)
    return with_entry(text, {"rolearn": ROLE, "username": "x", "groups": ["g"]}), without_role(text, ROLE)


GRPC, AWS = (GrpcDriverError,), (AwsError,)
DRIVER_DECODERS = {
    "aws-auth": Decoder(MAP_ROLES, _map_roles, AWS),
    "EKS ARN": Decoder(ARNS, lambda d: EksClusterArn.parse(text_of(d)), AWS),
    "OIDC provider": Decoder((b"https://oidc.eks/id/AB12",), lambda d: parse_oidc_provider(text_of(d)), AWS),
    "gRPC config.yaml": Decoder((CONFIG,), parse_config, (ConfigError,)),
    "gRPC status": Decoder((REFUSAL.encode(),), lambda d: decode_status(text_of(d)), GRPC),
    "gRPC subscription": Decoder(
        (encode_subscription(Subscription(cluster=CLUSTER, data_type=DataType.ADDON)),), decode_subscription, GRPC
    ),
    "gRPC event for the hub": Decoder(tuple(map(encode_publish_request, EVENTS)), _publish, GRPC),
    "gRPC event for an agent": Decoder(tuple(map(encode_event, EVENTS[:3])), _receive, GRPC),
    "gRPC resync request": Decoder((RESYNC,), _resync, GRPC),
    "gRPC manifest bundle": Decoder((METADATA + b"\n" + WORK,), _work, GRPC),
    **{
        f"gRPC object for the hub: {data_type}": Decoder((sent,), partial(_hub_object, data_type), GRPC)
        for data_type, sent in SENT.items()
    },
    **{
        f"gRPC object for an agent: {data_type}": Decoder((SENT[data_type],), partial(_agent_object, data_type), GRPC)
        for data_type in (DataType.MANAGED_CLUSTER, DataType.ADDON, DataType.CERTIFICATE_REQUEST)
    },
}
