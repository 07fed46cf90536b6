"""The built-in kinds: one table serves validation, merging, Protobuf, OpenAPI and discovery."""

from __future__ import annotations

from watchword.apiserver.kinds.catalog_core import ACCESS, CORE
from watchword.apiserver.kinds.catalog_workloads import WORKLOADS
from watchword.apiserver.model import ResourceKind

BUILTINS: tuple[ResourceKind, ...] = (*CORE, *WORKLOADS, *ACCESS)
"""Every kind served without a CustomResourceDefinition."""

__all__ = ["BUILTINS"]
