"""Every decoder of untrusted input, with valid input to begin with and the errors by which it refuses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
from tests.helpers.derived_keys import derived_key

from bench.reliability.decoder import Decoder, text_of
from bench.reliability.driver_decoders import DRIVER_DECODERS
from watchword.api import yaml
from watchword.api.http import Peer
from watchword.api.jsonpath import JsonPathError, find
from watchword.api.selectors import SelectorError, parse_field_selector, parse_label_selector
from watchword.api.sensitive import Sensitive
from watchword.apiserver.serving import bodies
from watchword.apiserver.serving.model import ApiError
from watchword.apiserver.serving.patch import apply_json_patch, apply_merge_patch
from watchword.cel.evaluate import compile_expression
from watchword.cel.functions import CelError
from watchword.cel.syntax import CelSyntaxError
from watchword.credentials.lifecycle import read_bound_token
from watchword.discovery.cluster_info import ClusterInfo, read_cluster_info, write_cluster_info
from watchword.discovery.errors import DiscoveryError
from watchword.discovery.token_secret import TokenRecord, read_token_secret, write_token_secret
from watchword.discovery.tokens import BootstrapToken
from watchword.http.request_parser import RequestLimits, RequestParser
from watchword.kube.connection import HttpProtocolError, ResponseParser
from watchword.kube.errors import KubeError
from watchword.kube.kubeconfig_files import parse_kubeconfig
from watchword.kube.watch_stream import parse_watch_event
from watchword.pki import jwt
from watchword.pki.authority import Authority
from watchword.pki.certificates import parse_certificate, split_bundle
from watchword.pki.csr import build_csr, parse_csr
from watchword.pki.errors import PkiError
from watchword.pki.jwt import split_token
from watchword.pki.keys import PrivateKey
from watchword.pki.subjects import CertificateSubject
from watchword.pullsecrets.pull_secret import read_dockercfg, render_dockercfg

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEY = derived_key(2**200 + 77)
AUTHORITY = Authority.make("fuzz", now=NOW, key=KEY)
LIMITS = RequestLimits(header_bytes=4_000, body_bytes=4_000)
JWT = (
    jwt.TokenSigner(KEY)
    .sign({"sub": "system:serviceaccount:a:b", "iat": 1, "exp": 2**31, "aud": ["x"]})
    .reveal()
    .encode()
)
TOKEN = BootstrapToken.parse("abcdef.0123456789abcdef")
KUBECONFIG = b"""apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "https://hub:6443", certificate-authority-data: QQ==, tls-server-name: x}}]
users: [{name: a, user: {token: abc, exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, env: []}}}]
contexts: [{name: a, context: {cluster: a, user: a, namespace: default}}]
"""
DOCUMENT = {"metadata": {"name": "a", "labels": {"x": "y"}}, "spec": {"list": [1, 2, {"a": None}], "text": "x"}}
PATCHES = (
    b'[{"op":"add","path":"/spec/list/-","value":{"a":[1]}},{"op":"test","path":"/metadata/name","value":"a"}]',
    b'[{"op":"move","from":"/spec/list/0","path":"/spec/x~1y~0"},{"op":"remove","path":"/spec/list/2/a"}]',
    b'[{"op":"copy","from":"/spec","path":"/metadata/labels/z"},{"op":"replace","path":"","value":{}}]',
)
REQUESTS = (
    b"GET /api/v1/pods?watch=1&a=%2F+b HTTP/1.1\r\nHost: x\r\nX-Who: \xc3\xa9\r\n\r\n",
    b"POST /x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello",
    b"PUT /y HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\nX-Late: 1\r\n\r\n",
)
RESPONSES = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 429 Too Many\r\nRetry-After: 1\r\nConnection: close\r\n\r\n",
)
EXPRESSIONS = (
    b"self.items.all(i, i.name.matches('^[a-z]+$') && size(i.name) < 63)",
    b"has(self.a) ? self.a.b[0] == 1 : self.?c.orValue([]).exists(x, x in ['a', \"b\"])",
    b"duration('1h30m') > duration('5s') && quantity('1Gi').isGreaterThan(quantity('500Mi'))",
    b"'abc'.startsWith('a') || -1.5e3 + 2.0 * 7 % 3 != 1u && {'a': 1}['a'] == 1",
)
SELF = {"items": [{"name": "a"}], "a": {"b": [1]}, "c": ["a"]}


def _feed_requests(data: bytes) -> object:
    return RequestParser(LIMITS, Peer("10.0.0.1")).feed(data)


def _feed_response(data: bytes) -> object:
    parser = ResponseParser()
    parser.feed(data)
    return parser.take()


def _evaluate(data: bytes) -> object:
    return compile_expression(text_of(data)).evaluate({"self": SELF, "oldSelf": SELF})


def _read_token_secret(data: bytes) -> object:
    found = bodies.decode_json(data)
    return read_token_secret(found) if isinstance(found, dict) else None


def _json_patch(data: bytes) -> object:
    return apply_json_patch(orjson.loads(orjson.dumps(DOCUMENT)), bodies.decode_json(data))


def _merge_patch(data: bytes) -> object:
    return apply_merge_patch(orjson.loads(orjson.dumps(DOCUMENT)), bodies.decode_json(data))


def _protobuf(data: bytes) -> object:
    return bodies.decode(data, "application/vnd.kubernetes.protobuf")


CERTIFICATE = AUTHORITY.certificate.pem
CSR = build_csr(KEY, CertificateSubject("system:node:a", ("system:nodes",)))
CLUSTER_INFO = write_cluster_info(ClusterInfo(("https://hub:6443",), split_bundle(CERTIFICATE))).encode()
TOKEN_SECRET = orjson.dumps(write_token_secret(TokenRecord(TOKEN, expires=NOW + timedelta(days=1))))
YAML = b"a: [1, {b: c}]\n---\nd: |\n  text\ne: &x {f: 1.5}\ng: *x\n"
PROTOBUF = b"k8s\x00\n\x0c\n\x02v1\x12\x06Secret\x12\x14\n\x0e\n\x01a\x12\x00\x1a\x07default\x12\x02\n\x00"
WATCH = b'{"type":"ADDED","object":{"kind":"Secret","metadata":{"name":"a","resourceVersion":"7"}}}'

DECODERS = {
    "bootstrap token": Decoder(
        (b"abcdef.0123456789abcdef",), lambda d: BootstrapToken.parse(text_of(d)), (DiscoveryError,)
    ),
    "bootstrap token Secret": Decoder((TOKEN_SECRET,), _read_token_secret, (ApiError,)),
    "cluster-info": Decoder((CLUSTER_INFO,), read_cluster_info, (DiscoveryError,)),
    "kubeconfig": Decoder((KUBECONFIG,), parse_kubeconfig, (KubeError,)),
    "YAML": Decoder((YAML, KUBECONFIG), yaml.load_all, (yaml.YamlError,)),
    "PEM certificate": Decoder((CERTIFICATE,), parse_certificate, (PkiError,)),
    "PEM bundle": Decoder((CERTIFICATE + CERTIFICATE,), split_bundle, (PkiError,)),
    "PEM key": Decoder((KEY.pem.reveal(),), lambda d: PrivateKey.from_pem(Sensitive(d)), (PkiError,)),
    "CSR": Decoder((CSR,), parse_csr, (PkiError,)),
    "JWT": Decoder((JWT,), lambda d: split_token(text_of(d)), (PkiError,)),
    "JWT signature": Decoder((JWT,), lambda d: jwt.TokenVerifier((KEY.public,)).verify(text_of(d)), (PkiError,)),
    "docker config": Decoder((render_dockercfg(["a", "b:5000"], Sensitive(JWT.decode())),), read_dockercfg),
    "HTTP request": Decoder(REQUESTS, _feed_requests),
    "HTTP response": Decoder(RESPONSES, _feed_response, (HttpProtocolError,)),
    "watch event": Decoder((WATCH,), parse_watch_event, (KubeError,)),
    "JSON body": Decoder((TOKEN_SECRET, WATCH), bodies.decode_json, (ApiError,)),
    "YAML body": Decoder((YAML, KUBECONFIG), bodies.decode_yaml, (ApiError,)),
    "Protobuf body": Decoder((PROTOBUF,), _protobuf, (ApiError,)),
    "JSON patch": Decoder(PATCHES, _json_patch, (ApiError,)),
    "merge patch": Decoder((b'{"spec":{"list":null,"x":{"y":[1]}}}',), _merge_patch, (ApiError,)),
    "CEL": Decoder(EXPRESSIONS, _evaluate, (CelError, CelSyntaxError)),
    "JSONPath": Decoder(
        (b"{.spec.list[?(@.a==1)].b}", b"$.a[*]['b'][-1]"), lambda d: find(DOCUMENT, text_of(d)), (JsonPathError,)
    ),
    "label selector": Decoder(
        (b"a=b,c!=d,e in (f,g),!h,i notin (j)",), lambda d: parse_label_selector(text_of(d)), (SelectorError,)
    ),
    "field selector": Decoder((b"metadata.name=a,b!=c",), lambda d: parse_field_selector(text_of(d)), (SelectorError,)),
    "ServiceAccount token": Decoder((JWT,), lambda d: read_bound_token(text_of(d))),
    **DRIVER_DECODERS,
}
