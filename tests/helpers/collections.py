"""Deletes many objects with one request; no process of the product does."""

from __future__ import annotations

from watchword.api.meta import Resource
from watchword.kube.client import Client
from watchword.kube.request_sender import decode


async def delete_collection(
    client: Client, resource: Resource, *, namespace: str = "", labels: str = "", fields: str = ""
) -> None:
    options = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
    query = {"labelSelector": labels, "fieldSelector": fields}
    decode(await client.request("DELETE", resource.path(namespace=namespace), body=options, query=query))
