"""Rights that typical add-ons need on the hub, ready to use: each as narrow as its purpose."""

from collections.abc import Iterable

from watchword.addons.definition import Grant
from watchword.api.meta import Object
from watchword.api.names import ADDON_GROUP, CLUSTER_GROUP

READ = ["get", "list", "watch"]


def read_only_reporter() -> Grant:
    """Reads what the hub has put into the cluster's namespace for it, and writes nothing."""
    return Grant(
        "read-only-reporter",
        rules=(_rule("", ["configmaps"], READ), _rule(ADDON_GROUP, ["managedclusteraddons"], READ)),
    )


def status_writer(*reports: str) -> Grant:
    """Keeps reports of these names in the cluster's namespace, as ConfigMaps or placement scores.

    Creating cannot be narrowed to a name; everything else is.
    """
    named = list(reports)
    return Grant(
        "status-writer",
        rules=(
            _rule("", ["configmaps"], ["create"]),
            _rule("", ["configmaps"], ["get", "patch", "update"], named),
            _rule(CLUSTER_GROUP, ["addonplacementscores"], ["create"]),
            _rule(CLUSTER_GROUP, ["addonplacementscores"], ["get", "patch", "update"], named),
            _rule(CLUSTER_GROUP, ["addonplacementscores/status"], ["patch", "update"], named),
        ),
    )


def config_syncer(*secrets: str) -> Grant:
    """Brings configuration from the cluster's namespace to the cluster; Secrets only by name."""
    rules = [_rule("", ["configmaps"], READ)]
    if secrets:
        rules.append(_rule("", ["secrets"], READ, list(secrets)))
    return Grant("config-syncer", rules=tuple(rules))


def _rule(group: str, resources: list[str], verbs: list[str], names: Iterable[str] | None = None) -> Object:
    row: Object = {"apiGroups": [group], "resources": resources, "verbs": verbs}
    return row if names is None else {**row, "resourceNames": list(names)}
