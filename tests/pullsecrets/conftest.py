"""A control plane on which pull secrets are managed."""

from __future__ import annotations

from tests.pullsecrets.harness import cluster, private_cluster

__all__ = ["cluster", "private_cluster"]
