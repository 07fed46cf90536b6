"""Defaults and limits that several packages have in common."""

from datetime import timedelta

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
"""What Kubernetes allows as the name of a namespace, and of most other objects."""

MAX_BODY_BYTES = 3 * 1024 * 1024
"""The largest request that kube-apiserver accepts; an object is smaller."""

MAX_DOCUMENT_BYTES = 1024 * 1024
"""The largest file, document or bundle that is read from a person or from the network."""

MAX_LOG_BYTES = 8 * 1024 * 1024
"""A log file of a pod that is larger is set aside, and begun anew."""

BOOTSTRAP_TOKEN_TTL = "24h"  # noqa: S105 - a time, as flags show it
LEFT_CLUSTER_RETENTION = "24h"
"""How long clusters are kept that left by `unjoin`."""

PULL_SECRET_TOKENS_PER_SECOND = 100.0

DEFAULT_LEASE_SECONDS = 60
LONGEST_LEASE = timedelta(days=7)
"""Of a cluster: the hub notices a silent agent after five of them."""

SHORTEST_TOKEN_LIFETIME, LONGEST_TOKEN_LIFETIME = timedelta(minutes=10), timedelta(seconds=2**32)
"""What kube-apiserver lets a TokenRequest ask for."""

LONGEST_AGENT_TOKEN_SECONDS = 366 * 24 * 3600
"""A year and a day: agents request a year by default."""

LONGEST_CERTIFICATE_REQUEST = timedelta(seconds=2**31 - 1)
"""`expirationSeconds` of a CertificateSigningRequest is a 32-bit number."""
