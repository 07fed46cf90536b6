"""Installs the kinds that the operator reconciles and that agents keep records in."""

from __future__ import annotations

from watchword.api.crds import MANAGED_CRDS
from watchword.api.crds.operator import CLUSTER_MANAGER
from watchword.api.meta import Object
from watchword.kube.client import Client
from watchword.operator.rendering import MANAGED_BY
from watchword.runtime.manifests import establish_crds

DEFINITIONS: tuple[Object, ...] = (*MANAGED_CRDS, CLUSTER_MANAGER)


async def install_crds(client: Client) -> None:
    """Apply the definitions that are missing or differ, and wait until their kinds are served."""
    await establish_crds(client, DEFINITIONS, manager=MANAGED_BY)
