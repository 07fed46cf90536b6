"""Whether a Klusterlet or ClusterManager can be carried out, before anything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watchword.api.cluster import validate_cluster_name
from watchword.api.meta import Object
from watchword.drivers.catalog import find_addon_driver, find_cluster_driver
from watchword.drivers.errors import UnknownDriver

AGENT_MODES = ("Default", "Singleton")


@dataclass(frozen=True, slots=True)
class SpecError:
    """Why a spec is refused: a reason for programs, a sentence for people."""

    reason: str
    message: str


def validate_klusterlet(klusterlet: Object) -> SpecError | None:
    """Return what has to be changed first, or None."""
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    registration: Mapping[str, Any] = spec.get("registrationConfiguration") or {}
    mode = str((spec.get("deployOption") or {}).get("mode") or "Default")
    if mode not in AGENT_MODES:
        message = f"deployOption.mode {mode!r} is not supported: choose one of {', '.join(AGENT_MODES)}"
        return SpecError("UnsupportedDeployOption", message)
    name = validate_cluster_name(str(spec.get("clusterName") or klusterlet["metadata"]["name"]))
    if name:
        return SpecError("InvalidClusterName", f"clusterName: {name}")
    return _validate_drivers(
        str((registration.get("registrationDriver") or {}).get("authType") or ""),
        str((registration.get("addOnKubeClientRegistrationDriver") or {}).get("authType") or ""),
    )


def _validate_drivers(cluster: str, addons: str) -> SpecError | None:
    try:
        find_cluster_driver(cluster)
    except UnknownDriver as unknown:
        return SpecError("UnknownRegistrationDriver", f"registrationDriver.authType: {unknown}")
    try:
        find_addon_driver(addons)
    except UnknownDriver as unknown:
        return SpecError("UnknownAddOnDriver", f"addOnKubeClientRegistrationDriver.authType: {unknown}")
    return None


def validate_cluster_manager(manager: Object) -> SpecError | None:
    """Return what has to be changed first, or None."""
    spec: Mapping[str, Any] = manager.get("spec") or {}
    mode = str((spec.get("deployOption") or {}).get("mode") or "Default")
    if mode != "Default":
        return SpecError("UnsupportedDeployOption", f"deployOption.mode {mode!r} is not supported: use Default")
    registration: Mapping[str, Any] = spec.get("registrationConfiguration") or {}
    for driver in registration.get("registrationDrivers") or ():
        objection = _validate_drivers(str(driver.get("authType") or ""), "")
        if objection is not None:
            return SpecError(objection.reason, objection.message.replace("registrationDriver.", "registrationDrivers."))
    return None
