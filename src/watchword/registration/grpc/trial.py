"""How clusters of `watchword up` reach the gRPC server of their hub."""

from __future__ import annotations

from pathlib import Path

from watchword.api.resources import CONFIG_MAPS
from watchword.kube.client import Client
from watchword.registration.grpc.options import CA_FILE, SERVER
from watchword.registration.grpc.server_objects import BUNDLE_KEY, CA_BUNDLE
from watchword.registration.options import Settings


async def trial_settings(hub: Client, server: str, folder: Path) -> Settings | None:
    """Return the flags of `join`; None until the hub has published the authority of the server's certificate."""
    found = await hub.find(CONFIG_MAPS, CA_BUNDLE)
    bundle = str(((found or {}).get("data") or {}).get(BUNDLE_KEY) or "")
    if not bundle:
        return None
    path = folder / "grpc-ca.crt"
    path.write_text(bundle)
    return {SERVER.flag: server, CA_FILE.flag: str(path)}
