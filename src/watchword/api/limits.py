"""Defaults and limits that several packages have in common."""

from __future__ import annotations

LONGEST_LABEL = 63
LONGEST_SUBDOMAIN = 253
"""What Kubernetes allows as the name of a namespace, and of most other objects."""

MAX_BODY_BYTES = 3 * 1024 * 1024
"""The largest request that kube-apiserver accepts; an object is smaller."""

MAX_DOCUMENT_BYTES = 1024 * 1024
"""The largest file, document or bundle that a person or a stranger hands over."""

MAX_LOG_BYTES = 8 * 1024 * 1024
"""A log file of a pod that is larger is set aside, and begun anew."""

BOOTSTRAP_TOKEN_TTL = "24h"  # noqa: S105 - a time, as flags show it
LEFT_CLUSTER_RETENTION = "24h"
"""How long clusters are kept that left by `unjoin`."""

PULL_SECRET_TOKENS_PER_SECOND = 100.0
