"""Whether a Klusterlet or ClusterManager can be carried out, before anything is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from watchword.api.cluster import judge_cluster_name
from watchword.api.meta import Object
from watchword.drivers.catalog import find_addon_driver, find_cluster_driver
from watchword.drivers.errors import UnknownDriver

AGENT_MODES = ("Default", "Singleton")


@dataclass(frozen=True, slots=True)
class Objection:
    """Why a spec is not carried out: a reason for programs, a sentence for people."""

    reason: str
    message: str


def judge_klusterlet(klusterlet: Object) -> Objection | None:
    """Return what a person has to change first, or None."""
    spec: Mapping[str, Any] = klusterlet.get("spec") or {}
    registration: Mapping[str, Any] = spec.get("registrationConfiguration") or {}
    mode = str((spec.get("deployOption") or {}).get("mode") or "Default")
    if mode not in AGENT_MODES:
        message = f"deployOption.mode {mode!r} is not supported: choose one of {', '.join(AGENT_MODES)}"
        return Objection("UnsupportedDeployOption", message)
    name = judge_cluster_name(str(spec.get("clusterName") or klusterlet["metadata"]["name"]))
    if name:
        return Objection("InvalidClusterName", f"clusterName: {name}")
    return _judge_drivers(
        str((registration.get("registrationDriver") or {}).get("authType") or ""),
        str((registration.get("addOnKubeClientRegistrationDriver") or {}).get("authType") or ""),
    )


def _judge_drivers(cluster: str, addons: str) -> Objection | None:
    try:
        find_cluster_driver(cluster)
    except UnknownDriver as unknown:
        return Objection("UnknownRegistrationDriver", f"registrationDriver.authType: {unknown}")
    try:
        find_addon_driver(addons)
    except UnknownDriver as unknown:
        return Objection("UnknownAddOnDriver", f"addOnKubeClientRegistrationDriver.authType: {unknown}")
    return None


def judge_cluster_manager(manager: Object) -> Objection | None:
    """Return what a person has to change first, or None."""
    spec: Mapping[str, Any] = manager.get("spec") or {}
    mode = str((spec.get("deployOption") or {}).get("mode") or "Default")
    if mode != "Default":
        return Objection("UnsupportedDeployOption", f"deployOption.mode {mode!r} is not supported: use Default")
    registration: Mapping[str, Any] = spec.get("registrationConfiguration") or {}
    for driver in registration.get("registrationDrivers") or ():
        objection = _judge_drivers(str(driver.get("authType") or ""), "")
        if objection is not None:
            return Objection(objection.reason, objection.message.replace("registrationDriver.", "registrationDrivers."))
    return None
