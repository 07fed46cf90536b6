"""Whether a Klusterlet or ClusterManager can be carried out, before anything is."""

from msgspec import Struct

from watchword.addons.catalog import ADDON_CATALOG
from watchword.api.cluster import validate_cluster_name
from watchword.api.meta import Object, mapping_at, rows_at
from watchword.credentials.driver import DRIVER_LIST, Settings, Side, settings_from_spec, validate_options
from watchword.credentials.errors import UnknownDriver
from watchword.operator.cluster_manager_manifests import hub_settings
from watchword.registration.catalog import CATALOG

AGENT_MODES = ("Default", "Singleton")


class SpecError(Struct, frozen=True):
    """Why a spec is refused: a reason for programs, a sentence for people."""

    reason: str
    message: str


def validate_klusterlet(klusterlet: Object) -> SpecError | None:
    """Return what has to be changed first, or None."""
    spec, registration = mapping_at(klusterlet, "spec"), mapping_at(klusterlet, "spec", "registrationConfiguration")
    mode = str(mapping_at(spec, "deployOption").get("mode") or "Default")
    if mode not in AGENT_MODES:
        message = f"deployOption.mode {mode!r} is not supported: choose one of {', '.join(AGENT_MODES)}"
        return SpecError("UnsupportedDeployOption", message)
    name = validate_cluster_name(str(spec.get("clusterName") or klusterlet["metadata"]["name"]))
    if name:
        return SpecError("InvalidClusterName", f"clusterName: {name}")
    return _validate_drivers(
        str(mapping_at(registration, "registrationDriver").get("authType") or ""),
        str(mapping_at(registration, "addOnKubeClientRegistrationDriver").get("authType") or ""),
        settings_from_spec((*CATALOG.options(Side.CLUSTER), *ADDON_CATALOG.options), registration),
    )


def _validate_drivers(cluster: str, addons: str, settings: Settings) -> SpecError | None:
    try:
        chosen = CATALOG.find(cluster).name
    except UnknownDriver as unknown:
        return SpecError("UnknownRegistrationDriver", f"registrationDriver.authType: {unknown}")
    try:
        ADDON_CATALOG.find(addons)
    except UnknownDriver as unknown:
        return SpecError("UnknownAddOnDriver", f"addOnKubeClientRegistrationDriver.authType: {unknown}")
    return _validate_settings(
        [*CATALOG.validate(Side.CLUSTER, settings, chosen), *validate_options(ADDON_CATALOG.options, settings)]
    )


def _validate_settings(objections: list[str]) -> SpecError | None:
    return SpecError("InvalidDriverSettings", "; ".join(objections)) if objections else None


def validate_cluster_manager(manager: Object) -> SpecError | None:
    """Return what has to be changed first, or None."""
    spec = mapping_at(manager, "spec")
    mode = str(mapping_at(spec, "deployOption").get("mode") or "Default")
    if mode != "Default":
        return SpecError("UnsupportedDeployOption", f"deployOption.mode {mode!r} is not supported: use Default")
    enabled = []
    for entry in rows_at(spec, "registrationConfiguration", DRIVER_LIST):
        try:
            enabled.append(CATALOG.find(str(entry.get("authType") or "")).name)
        except UnknownDriver as unknown:
            return SpecError("UnknownRegistrationDriver", f"registrationDrivers.authType: {unknown}")
    return _validate_settings(CATALOG.validate(Side.HUB, hub_settings(manager, CATALOG), *enabled))
